# SPDX-License-Identifier: Apache-2.0
# The store is lost while a training runs and writes step after step: after the repair the training ends as if nothing had
# been. 0354 has events that are nowhere any more.
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
kill -STOP "$agent"             # so that the training is not over before the repair is
kill -KILL "$pid"
wait_for "the daemon's end" ended "$pid"
rm "$JOBCTL_HOME"/jobs.db*
code 0 jobctl doctor --repair
has '1 came from the directories' out
kill -CONT "$agent"
code 0 jobctl wait "$id"
job_is "$id" result succeeded
job_is "$id" attempt 1
job_is "$id" generation 1
job_is "$id" step 600
[ "$(events_of "$id" kind=rebuilt | wc -l)" = 1 ]
[ "$(events_of "$id" kind=rank_started | wc -l)" = 1 ]
