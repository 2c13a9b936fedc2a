# SPDX-License-Identifier: Apache-2.0
# status, show and why of a job that lost ranks or its agent: repeated steps do not count as progress, the last step is
# that of the last ranks, and an incident report belongs to its failure.
. "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/events.sh"
cd "$WORK"
why() { jobctl why "$1" | tr -s " \n" " " >out; }

# A script that saves nothing: killed at step 50 of 100, cancelled at step 3 of its second run.
cat >script.yaml <<'YAML'
name: script
resources: {gpus: 0, ranks: 1}
run: |
  for i in $(seq $((JOBCTL_GENERATION == 1 ? 50 : 3))); do echo "step $i/100 loss 0.5"; done
  trap 'exit 0' TERM
  echo up >>up
  sleep 1000 & wait
YAML
jobctl submit -q script.yaml
wait_for "the script runs" test -e up
code 0 jobctl show 1
pid=$(wait_event 1 kind=generation_started | field pids.0)
has "generation    1.1 with 1 rank, pid $pid" out
kill -9 "$pid"
wait_for "it runs again" says 2 wc -l up
jobctl cancel 1
jobctl wait 1 || [ $? = 3 ]
code 0 jobctl status 1 -o progress,status
has "3/100" out
why 1
has "was cancelled at step 3 " out
code 0 jobctl show 1
has "generation    1.1 with 1 rank, up to step 50: rank 0 was killed by SIGKILL (9) (rank_crash)" out
has "generation    1.2 with 1 rank, up to step 3: stopped on request" out
lacks " pid" out
wait_event 1 kind=generation_ended generation=2 >event
read_json holds 'o["body"]["goodput"]["productive"] == 0 and o["body"]["goodput"]["replayed"] > 0' <event

# One that ignores SIGTERM: how it ended is in the sentence.
cat >stubborn.yaml <<'YAML'
name: stubborn
resources: {gpus: 0, ranks: 1}
run: |
  trap '' TERM
  echo up >>stubborn
  sleep 1000
grace: 1s
YAML
jobctl submit -q stubborn.yaml
wait_for "it runs" test -e stubborn
jobctl cancel stubborn
jobctl wait stubborn || [ $? = 3 ]
why stubborn
has "on request. It was stopped by SIGKILL: SIGTERM did not end it in time." out

# The engine: a rank is killed, later the agent. Where it resumes is not promised before it is known.
cat >icons.yaml <<YAML
name: icons
resources: {ranks: 2}
train:
  model: {preset: tiny}
  data: {path: $TOP/templates/data/tango-icons}
  batch: {global: 4}
  steps: 1000000
  sample: {after: false}
checkpoint: {every: 50 steps}
YAML
jobctl submit -q icons.yaml
wait_event 3 kind=checkpoint >/dev/null
kill -9 "$(wait_event 3 kind=generation_started | field pids.1)"
wait_event 3 kind=checkpoint generation=2 >/dev/null
why 3
has "Before that, rank 0: step" out
has "checkpoint" out
kill -9 "$(wait_event 3 kind=agent_up | field pid)"
wait_event 3 kind=checkpoint attempt=2 >/dev/null
why 3
has "Its ranks failed once and its agent was lost once; most recent: the agent of attempt 1 died" out
lacks "Before that" out
has "newest of step" out
jobctl cancel 3
jobctl wait 3 || [ $? = 3 ]
code 0 jobctl show 3
grep -q "generation    1.2 with 2 ranks, step [1-9].*: the agent of attempt 1 died" out
grep -q "generation    2.1 with 2 ranks, step [1-9][0-9]* to" out
lacks "(preempted)" out
code 0 jobctl logs --events 3
grep -qE "resuming at step [0-9]+ or later" out
