# SPDX-License-Identifier: Apache-2.0
# The engine is killed with -9 during training: the agent restarts it at the next step, from memory, and no reported
# step is lost; a checkpoint is written on request; cancel saves and leaves no process behind. The recovery time is
# printed; tests/bench/restart.sh measures it.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"

cat >"$WORK/icons.yaml" <<YAML
name: icons
train:
  model: {preset: tiny}
  data: {path: $TOP/templates/data/tango-icons}
  batch: {global: 4}
  steps: 100000
  sample: {after: false}
checkpoint: {every: 50 steps}
YAML

step_of() { jobctl-agent flight "$JOBCTL_HOME/jobs/1/1/rank0.flight" | sed -n '/generation 2, pid/h; s/^step \([0-9]*\) of.*/\1/;T;x;/./{x;p}'; }
step_after() { local step; step=$(step_of) && [ "${step:-0}" -gt "$1" ]; }

jobctl submit -q "$WORK/icons.yaml"
wait_event 1 kind=checkpoint >/dev/null
pid=$(wait_event 1 kind=generation_started | field pids)
before=$(date +%s%3N)
kill -9 "$pid"
resumed=$(wait_event 1 kind=rank_started generation=2 | field resume_step)
WAIT_PAUSE_S=0.005 wait_for "a step after $resumed" step_after "$resumed" # the flight page shows it as soon as it is done
back=$(($(date +%s%3N) - before))
ended=$(wait_event 1 kind=generation_ended generation=1)
echo "killed at step $(echo "$ended" | field step), resumed from $resumed, seen at step $(step_of)" \
    "after $back ms"
[ "$(echo "$ended" | field cause)" = rank_crash ]
[ "$resumed" -ge "$(echo "$ended" | field step)" ]

# A request that comes beside the regular checkpoint is answered by that one: ask again then.
between() { events_of 1 kind=checkpoint step | awk '$1 % 50 { print; found = 1 } END { exit !found }'; }
asked_for() { jobctl checkpoint 1 && wait_for 1 "a checkpoint between the regular ones" between; }
wait_for "a checkpoint that was asked for" asked_for
echo "asked for a checkpoint: got one of step $(between)"

jobctl cancel 1
jobctl wait 1 || [ $? = 3 ]
last=$(wait_event 1 kind=attempt_ended)
[ "$(echo "$last" | field result)" = stopped ]
[ "$(echo "$last" | field clean)" = true ]
[ "$(wait_event 1 kind=rank_exited generation=2 | field exit_code)" = 75 ]
! kill -0 "$pid" 2>/dev/null || exit 1

# What is told of it: the end of what the killed rank had printed; and who saved and went as asked has not died.
jobctl why 1 | tr -s ' \n' ' ' >why
has ". Its ranks failed once; most recent: rank 0 was killed by SIGKILL" why
lacks "preempted once" why
jobctl why 1 >out
grep -A5 'rank 0 was killed by SIGKILL (9) (rank_crash)$' out >tail
has "| checkpoint: step " tail
lacks "| device:" tail
