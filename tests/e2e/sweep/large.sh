#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An array of 10,000: nothing of a member is stored before it starts, and waiting members cost the daemon no work.
# max_parallel, hold, a job submitted later, cancel of the whole; and a store lost in between.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
cat >many.yaml <<'YAML'
resources: {gpus: 0, cpus: 1}
grace: 0s
run: |
  echo "$JOBCTL_ARRAY_INDEX" >>"$MARKS"
  while [ ! -e "$MARKS.$JOBCTL_ARRAY_INDEX" ]; do sleep 0.05; done
YAML
db=$JOBCTL_HOME/jobs.db
code 0 jobctl submit many.yaml -q --set array=0-9999%1 --set "env.MARKS=$WORK/marks"
wait_for "the first member runs" test -s marks
[ "$(sqlite3 "$db" 'select count(*) from jobs')" = 2 ]
[ "$(ls "$JOBCTL_HOME/jobs" | wc -l)" = 2 ]
code 0 jobctl status --json
json 'o["jobs"][0]["members"] == {"count": 10000, "running": 1, "succeeded": 0, "failed": 0, "cancelled": 0, "not_started": 9999} and o["jobs"][0]["state"] == "running"'
code 0 jobctl why 1
has "a sweep of 10000 members: 1 running, 9999 not started; at most 1 at" out
code 3 jobctl logs 1
has "jobctl logs 1_INDEX" err
code 3 jobctl edit 1
has "is a sweep" err

# The next one starts when the first ends; the members of a sweep that is held do not.
touch marks.0
wait_for "the second member runs" job_is 1_1 state running
code 0 jobctl hold 1
touch marks.1
code 0 jobctl wait 1_1
code 0 jobctl submit many.yaml -q --set name=later --set "env.MARKS=$WORK/later"
wait_for "a job submitted later runs" test -e later
[ "$(cat marks)" = $'0\n1' ]
code 0 jobctl cancel later --now
code 0 jobctl hold --off 1
wait_for "the third member runs" job_is 1_2 state running
code 3 jobctl remove 1_0
has "is a member of sweep 1, which is not done" err

# The store is lost: each job.json has all that is needed, and no index starts again.
stop_daemon
rm -f "$db" "$db"-* && rm -rf "$JOBCTL_HOME/snapshots"
code 0 jobctl status
code 0 jobctl status 1 --json
json '[j["index"] for j in o["jobs"][1:]] == [0, 1, 2] and o["jobs"][0]["members"]["succeeded"] == 2'
touch marks.2
wait_for "the fourth member runs" job_is 1_3 state running
[ "$(cat marks)" = $'0\n1\n2\n3' ]

# Cancel: what runs ends, and nothing else starts.
code 0 jobctl cancel 1
code 3 jobctl wait 1
code 3 jobctl wait 1_3
code 0 jobctl status 1 --json
json 'o["jobs"][0]["members"] == {"count": 10000, "running": 0, "succeeded": 3, "failed": 0, "cancelled": 1, "not_started": 9996}'
[ "$(cat marks)" = $'0\n1\n2\n3' ]
