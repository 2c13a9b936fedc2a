# SPDX-License-Identifier: Apache-2.0
# The store and its copies are lost while a training runs: the daemon takes the training over from its job.json and
# finds its agent, and it ends as if nothing had happened. `status` and `why` report what is lost. copied-store.sh covers
# events that exist nowhere.
. "$TOP/tests/e2e/events.sh"
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
cat >train.yaml <<YAML
name: training
train:
  model: {preset: tiny}
  data: {path: $TOP/templates/data/tango-icons}
  batch: {global: 4}
  steps: 600
  seed: 1
  sample: {before: false, after: false}
checkpoint: {every: 100 steps}
YAML
id=$(jobctl submit -q train.yaml)
until_step "$id" 120
agent=$(agent_pid "$id" 1)
pid=$(daemon_answers)
kill -STOP "$agent"             # so that the training is not over before the daemon is back
kill -KILL "$pid"
wait_for "the daemon's end" ended "$pid"
rm -r "$JOBCTL_HOME"/jobs.db* "$JOBCTL_HOME/snapshots"
code 0 jobctl status
tr -s ' \n' ' ' <err >said
has 'The store was lost; there is no copy of it; 1 job was taken over from job.json, and their latest events, curves and notes about nodes are lost' said
kill -CONT "$agent"
code 0 jobctl wait "$id"
job_is "$id" result succeeded
job_is "$id" attempt 1
job_is "$id" generation 1
job_is "$id" step 600
[ "$(events_of "$id" kind=rebuilt | wc -l)" = 1 ]
[ "$(events_of "$id" kind=rank_started | wc -l)" = 0 ]
jobctl why "$id" | tr -s ' \n' ' ' >why
has "The store had lost this job's events 2 to" why
