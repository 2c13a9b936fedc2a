# SPDX-License-Identifier: Apache-2.0
# jobctl -H with a host that sends arbitrary answers: terminal commands in answers are not printed, nonsense gives an
# error, nothing hangs; no process list there shows secrets.
. "$TOP/tests/hosts.sh"
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
export HOST_ENV="PATH=$PATH"
hosts_up far
code 0 jobctl run -d -q -N name --gpus 0 -- true
code 0 jobctl wait -q 1
code 0 jobctl version --json
cp out version
for answer in 'jobs?all=1' jobs/1 jobs/1/why 'jobs/1/events?after=0' 'jobs/1/wait?timeout_s=60' notify store; do
    curl -s --unix-socket "$JOBCTL_HOME/jobctl.sock" "http://jobctl/v1/$answer" >"answer.$(tr -c 'a-z\n' _ <<<"${answer%%\?*}")"
done
# A relay whose answers are those of a daemon, with a terminal command in each text of more than one word.
cat >evil <<PY
#!/usr/bin/env python3
import json, sys
say = sys.stdout.buffer
def tell(text): say.write(text.encode()); say.flush()
kind = open("$WORK/kind").read().strip()
here = json.load(open("$WORK/version"))
tell("jobctl-relay 1\n")
if kind == "nonsense": tell("[1,\n")
if kind == "endless":
    while True: tell("x" * 100000)
tell(json.dumps({"version": here["version"], "schema": 2}) + "\n")
sys.stdin.readline()
if kind == "error": tell(json.dumps({"error": {"code": 4, "text": "bad \x1b]0;owned\x07 word"}}) + "\n")
if kind == "gone": sys.exit(0)
tell("{}\n")
def worse(v):
    if isinstance(v, dict): return {k: worse(x) for k, x in v.items()}
    if isinstance(v, list): return [worse(x) for x in v]
    return v + " \x1b]0;owned\x07\x1b[2J" if isinstance(v, str) and v not in (here["version"], "done", "1", "name", "succeeded") else v
while True:
    line = sys.stdin.readline()
    if not line: break
    path = line.split()[1].split("?")[0][4:]
    while sys.stdin.readline().strip(): pass
    name = "$WORK/answer." + "".join(c if c.isalpha() and c.islower() else "_" for c in path)
    if path == "version": answer = here["daemon"] | {"schema": 2}
    else:
        try: answer = worse(json.load(open(name)))
        except OSError: answer = {"schema": 2, "error": {"code": "usage", "text": "bad \x1b]0;owned\x07 word"}}
    body = json.dumps(answer)
    tell("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
PY
chmod +x evil
export JOBCTL_HOST_PROGRAM=$WORK/evil
clean() { ! grep -q $'[\033\007]' out err || { cat -v out err; exit 1; }; }
echo polite >kind
for command in 'status -a' 'status -a -o id,name,status,reason' 'show 1' 'why 1' 'logs --events 1' 'cancel 1' 'retry 1' 'nonsense' \
    'notify' 'wait 1' 'prune' 'version'; do
    timeout 60 jobctl -H far $command >out 2>err || [ $? -lt 100 ] || { cat err; exit 1; }
    clean
    [ -s out ] || [ -s err ]
done
jobctl -H far status -a >out
has name out # it was understood
code 2 jobctl -H far cancel 1 # an error in an answer of status 200
has 'bad ?]0;owned' err
code 4 jobctl -H far retry 1
has 'did not report its environment' err
for kind in nonsense endless error gone; do
    echo $kind >kind
    code 4 timeout 60 jobctl -H far status
    clean
done
has 'ended' err
unset JOBCTL_HOST_PROGRAM

# A secret on its way to a command that runs there is in no argument, here or there.
export TOKEN_HERE=very-secret-words
printf 'run: "true"\nsecrets: [TOKEN_HERE]\nresources: {gpus: 0}\n' >secret.yaml
printf '#!/bin/sh\ncat /proc/[0-9]*/cmdline | tr "\\0" " " >>%s/seen\nexec %s "$@"\n' "$WORK" "$BIN/jobctl" >there
chmod +x there
code 0 env JOBCTL_HOST_PROGRAM="$WORK/there" jobctl -H far plan secret.yaml
code 0 env JOBCTL_HOST_PROGRAM="$WORK/there" jobctl -H far submit -w secret.yaml
[ -s seen ]
! grep -q very-secret seen || exit 1
