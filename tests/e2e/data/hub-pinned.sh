# SPDX-License-Identifier: Apache-2.0
# The spec of a job with hub models names their commit, however it is submitted: by a client of the HTTP API, with the
# submitter's variables and token, or by an edit. A refusal by the hub is a mistake with its line there, too.
. "$TOP/tests/e2e/hub.sh"
cd "$WORK"
mkdir tiny other
head -c 3000 /dev/urandom >tiny/model.safetensors
head -c 2000 /dev/urandom >other/model.safetensors
first=$(add me/tiny tiny)
other=$(add me/other other)
cp -r "$TOP/templates/data/tango-icons" data
cat >job.yaml <<YAML
name: far
resources: {gpus: 0, cpus: 1}
train:
  model: {preset: tiny, weights: "hf://me/tiny"}
  data: {path: data, caption_words: 4}
  batch: {global: 4}
  steps: 2
  sample: {after: false}
YAML
# The daemon itself knows no hub: what counts are the variables that come with the submit.
HF_ENDPOINT=http://127.0.0.1:9 HF_HUB_OFFLINE=1 code 0 jobctl daemon --detach
post() { curl -s --max-time 60 --unix-socket "$JOBCTL_HOME/jobctl.sock" -d @- "http://jobctl/v1/$1" >out; }
body() { # MEMBERS
    python3 - "$1" <<'PY'
import json, os, sys
body = {"spec": open("job.yaml").read(), "file": "job.yaml", "cwd": os.getcwd(), "hold": True,
        "environment": {name: os.environ[name] for name in ("HF_ENDPOINT", "HOME", "PATH", "no_proxy")}}
body.update(json.loads(sys.argv[1]))
print(json.dumps(body))
PY
}
weights_of() { jobctl show --json "$1" | field spec.train.model.weights; }

faults '"token":"hf_ofTheSubmitter"'
body '{"secrets": {"HF_TOKEN": "hf_ofTheSubmitter"}}' | post jobs
json 'o["job"]["id"] == 1'
[ "$(weights_of 1)" = "hf://me/tiny@$first" ]
[ "$(asked hub 'Bearer hf_ofTheSubmitter')" -ge 1 ]
# A dry run, and a branch in an override.
faults
body '{"dry_run": true, "set": ["train.model.weights=hf://me/other@main"]}' | post jobs
json "o['spec']['train']['model']['weights'] == 'hf://me/other@$other'"
# A name that the hub does not have: the line.
body '{"set": ["train.model.weights=hf://me/nothing"]}' | post jobs
json '"train.model.weights" in o["error"]["text"] and "me/nothing" in o["error"]["text"]'
sed -i 's|hf://me/tiny|hf://me/nothing|' job.yaml
body '{}' | post jobs
json 'o["error"]["line"] == 4'
sed -i 's|hf://me/nothing|hf://me/tiny|' job.yaml

# An edit asks as a submit does, also for a name that stays.
head -c 3000 /dev/urandom >tiny/model.safetensors
second=$(add me/tiny tiny)
[ "$first" != "$second" ]
edit() {
    printf '#!/bin/sh\nsed -i "%s" "$1"\n' "$1" >editor.sh
    chmod +x editor.sh
    VISUAL=$WORK/editor.sh TMPDIR=$WORK code "${2:-0}" jobctl edit 1
}
forget
edit 's/steps: 2/steps: 3/'
[ "$(weights_of 1)" = "hf://me/tiny@$second" ]
edit 's|hf://me/tiny|hf://me/other|'
[ "$(weights_of 1)" = "hf://me/other@$other" ]
edit 's|hf://me/other|hf://me/nothing|' 2
has 'me/nothing' err
[ "$(weights_of 1)" = "hf://me/other@$other" ]
