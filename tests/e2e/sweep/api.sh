#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Sweeps through the API: a text that the daemon parses itself, canonical specs that no jobctl would make, and the list
# of members; secrets and environment of the submitter reach every member.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
cat >body.py <<'PY'
import json, sys
spec = "resources: {gpus: 0, cpus: 1}\nsecrets: [TOKEN]\nrun: echo \"$GREETING $TOKEN $A\"\nsweep: {env.A: [%s]}\n" % sys.argv[1]
print(json.dumps({"spec": spec, "file": "a.yaml", "cwd": sys.argv[2], "secrets": {"TOKEN": "hidden-%d" % 7},
                  "environment": {"GREETING": "hello", "PATH": "/usr/bin:/bin"}}))
PY
post() { curl -s --max-time 30 --unix-socket "$JOBCTL_HOME/jobctl.sock" -d @- "http://jobctl/v1/$1" >out; }
code 0 jobctl daemon --detach
python3 body.py '1, 2' "$WORK" | post jobs
json 'o["job"]["members"]["count"] == 2 and o["job"]["name"] == "a"'
code 0 jobctl wait 1
for i in 0 1; do
    code 0 jobctl logs 1_$i
    has "hello hidden-7 $((i + 1))" out
done
# The values of secrets end with their jobs.
[ -z "$(find "$JOBCTL_HOME/jobs" -name secrets.env)" ]
curl -s --unix-socket "$JOBCTL_HOME/jobctl.sock" 'http://jobctl/v1/jobs?sweep=1&limit=1' >out
json '[j["index"] for j in o["jobs"]] == [0]'
curl -s --unix-socket "$JOBCTL_HOME/jobctl.sock" 'http://jobctl/v1/jobs?all=1' >out
json '[j["id"] for j in o["jobs"]] == [1]'
python3 body.py '1, []' "$WORK" | post jobs
json 'o["error"]["line"] == 4 and "env.A" in o["error"]["text"]'

# A canonical spec: what jobctl says of it, and with points that it would never make.
printf 'run: "true"\nresources: {gpus: 0, cpus: 1}\nsweep: {retry.max: [1, 2]}\n' >b.yaml
code 0 jobctl submit --dry-run b.yaml --json
cp out dry
refused() { # SWEEP TEXT
    SWEEP=$1 python3 -c 'import json, os
spec = json.load(open("dry"))["spec"]
spec["sweep"] = json.loads(os.environ["SWEEP"])
print(json.dumps({"spec": "run: x", "cwd": "/", "canonical": spec}))' | post jobs
    has "$2" out
}
refused '{"retry.max": []}' 'the list is empty'
refused '{"retry.max": [-5]}' 'retry.max: -5 is out of range'
refused '{"retry.nothing": [1]}' 'nothing'
refused '{"name": [5]}' 'name'
refused '{}' 'is empty'
refused '7' 'sweep'
refused '[{"retry.max": 1}, {"retry.no_progress": 1}]' 'point 1 has no value'
# A later point that cannot be is found when it is due: the sweep ends, and says which.
refused '{"retry.max": [1, -5]}' '"job"'
code 1 jobctl wait last
has "member 1: " out
has "retry.max" out
code 0 jobctl version
