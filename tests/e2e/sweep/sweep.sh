#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A sweep: one row for all members, their values, the best one, a member by its index, its plain spec, retry of failed
# members, a job after a sweep, and the removal of all.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
cat >lr.yaml <<'YAML'
resources: {gpus: 0, cpus: 1}
retry: {max: 0}
progress: "step {step}/{steps} loss={loss}"
run: |
  echo "step 1/1 loss=$LR$BATCH"
  echo "$JOBCTL_ARRAY_INDEX" >>"$MARKS"
  [ "$JOBCTL_ARRAY_INDEX" != 3 ] || [ -e "$MARKS.pass" ]
sweep:
  env.LR: [0.2, 0.1]
  env.BATCH: [8, 16]
  checkpoint.keep: 1-2
YAML
marks() { sort -n "$WORK/marks" | tr '\n' ' '; }
code 0 jobctl submit lr.yaml -q --set "env.MARKS=$WORK/marks"
code 1 jobctl wait 1
has "7 succeeded, 1 failed" out
[ "$(marks)" = "0 1 2 3 4 5 6 7 " ]

# One row, and the members below it with their values; an index is a name.
code 0 jobctl status -a --json
json 'len(o["jobs"]) == 1 and o["jobs"][0]["members"] == {"count": 8, "running": 0, "succeeded": 7, "failed": 1, "cancelled": 0, "not_started": 0}'
code 0 jobctl status 1
has "LR=0.1 BATCH=16 keep=2" out
has " 8/8 " out
code 0 jobctl status 1 -s failed --json
json '[j["index"] for j in o["jobs"][1:]] == [3]'
code 0 jobctl show 1_5 --json
json 'o["job"]["name"] == "lr[5]" and o["job"]["point"] == {"env.LR": "0.1", "env.BATCH": "8", "checkpoint.keep": 2}'
json 'o["spec"]["env"]["JOBCTL_ARRAY_INDEX"] == "5" and "sweep" not in o["spec"] and o["spec"]["checkpoint"]["keep"] == 2'
code 0 jobctl logs 'lr[5]'
has "step 1/1 loss=0.18" out
code 3 jobctl show 1_8
has "member 8 of job 1 has not started, or does not exist" err
code 3 jobctl show 2_0
has "job 2 is not a sweep or an array" err

# The best: the loss is LR with BATCH behind it, 0.116 or 0.28.
code 0 jobctl best 1 -n 3 --json
json '[j["index"] for j in o["jobs"]] == [6, 7, 4]'
code 0 jobctl best 1 --by loss --max -q
[ "$(jobctl show "$(cat out)" --json | field job.index)" = 0 ] || { cat out; jobctl best 1 --max; exit 1; }
code 2 jobctl best 1_3
has "is not a sweep or an array" err
code 2 jobctl best 1 --by colour
has 'jobs have no value "colour"' err

# The text of a member is a plain file: it gives the same spec.
five=$(jobctl show 1_5 --json | field job.id)
code 0 jobctl submit --dry-run "$JOBCTL_HOME/jobs/$five/spec.yaml"
jobctl show 1_5 --json >stored
python3 - <<'PY'
import json
alone, stored = json.load(open("out")), json.load(open("stored"))["spec"]
for spec in alone, stored:
    del spec["checkpoint"]["dir"]
stored["checkpoint"].pop("origin")
assert alone == stored, (alone, stored)
PY

# A job after the sweep; one that failed can never be met.
code 3 jobctl submit lr.yaml --set array=0 --after 1
has "after: job 1 did not succeed (failed)" err

# Retry: only what failed, with its index and its values.
code 0 touch marks.pass
code 0 jobctl retry 1
has "reruns the members of job 1 (lr) that did not succeed: 1 member" out
again=$(jobctl status -aq | head -n 1)
code 0 jobctl wait "$again"
has "succeeded" out
[ "$(marks)" = "0 1 2 3 3 4 5 6 7 " ]
code 0 jobctl show "${again}_3" --json
json 'o["job"]["point"]["env.BATCH"] == "16" and o["job"]["retry_of"] is not None'
code 3 jobctl retry "$again"
has "there is nothing to retry" err

# Chosen points; 'last' is the sweep.
code 0 jobctl submit lr.yaml -q --set "env.MARKS=$WORK/marks" --set array=6-7 --after "$again"
code 0 jobctl wait last
code 0 jobctl status last --json
json '[j["index"] for j in o["jobs"][1:]] == [6, 7]'
code 3 jobctl edit last
has "is done" err

# What stands for one job only.
code 2 jobctl drill lr.yaml
has "this spec describes several" err
code 0 jobctl submit lr.yaml -q --hold --set sweep='{env.BATCH: [1]}' --set "env.MARKS=$WORK/marks"
code 3 jobctl edit last
has "is a sweep" err
code 0 jobctl cancel last

# A member that succeeded and was removed does not run again.
code 0 rm marks.pass
code 0 jobctl submit lr.yaml -q --set "env.MARKS=$WORK/marks" --set array=2-4
code 1 jobctl wait last
sweep=$(jobctl show last --json | field job.id)
code 0 jobctl remove "${sweep}_2"
code 0 jobctl retry "$sweep"
has "1 member" out
code 1 jobctl wait last
code 0 jobctl remove last "$sweep"

# All of it goes.
code 0 jobctl remove 1
has "9 jobs removed" out
code 0 jobctl status -a --json
json 'len(o["jobs"]) == 3'
