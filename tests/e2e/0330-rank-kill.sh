# SPDX-License-Identifier: Apache-2.0
# alone: half a second is what it has to be back in
# The embedded engine is killed with -9 in the middle: the agent has it back at the next step within
# half a second, from memory: no step that was told of is lost; a checkpoint is written on request; cancel saves and
# leaves no process behind.
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

flight() { jobctl-agent flight "$JOBCTL_HOME/jobs/1/1/rank0.flight"; }

jobctl submit -q "$WORK/icons.yaml"
await '"kind":"checkpoint"' >/dev/null
pid=$(await '"kind":"generation_started"' | field pids)
before=$(date +%s%3N)
kill -9 "$pid"
resumed=$(await '"kind":"rank_started".*"generation":2' | field resume_step)
for _ in $(seq 500); do # the flight page shows a step that is done as soon as it is
    page=$(flight)
    step=$(echo "$page" | sed -n 's/^step \([0-9]*\) of.*/\1/p')
    case $page in *'generation 2, pid'*) [ "$step" -le "$resumed" ] || break ;; esac
    sleep 0.005
done
back=$(($(date +%s%3N) - before))
ended=$(await '"kind":"generation_ended".*"generation":1')
echo "killed at step $(echo "$ended" | field step), resumed from $resumed, seen at step $step" \
    "after $back ms"
[ "$step" -gt "$resumed" ]
[ "$(echo "$ended" | field cause)" = rank_crash ]
[ "$resumed" -ge "$(echo "$ended" | field step)" ]
# half a second on a machine that is not busy with other work
limit=$(awk -v n="$(nproc)" '{ print ($1 > 2 * n ? 2000 : 500) }' /proc/loadavg)
[ "$back" -lt "$limit" ]

# A request that comes beside the regular checkpoint is answered by that one: ask again then.
found=
for i in $(seq 200); do
    [ $((i % 20)) != 1 ] || jobctl checkpoint 1
    for s in $(jobctl events 1 --json | sed 's/{"seq":/\n&/g' | grep '"kind":"checkpoint"' | field step); do
        [ $((s % 50)) = 0 ] || found=$s
    done
    [ -z "$found" ] || break
    sleep 0.05
done
echo "asked for a checkpoint: got one of step ${found:-none}"
[ -n "$found" ]

jobctl cancel 1
jobctl wait 1 || [ $? = 3 ]
last=$(await '"kind":"attempt_ended"')
[ "$(echo "$last" | field result)" = stopped ]
[ "$(echo "$last" | field clean)" = true ]
[ "$(await '"kind":"rank_exited".*"generation":2' | field exit_code)" = 75 ]
! kill -0 "$pid" 2>/dev/null || exit 1

# What is told of it: the end of what the killed rank had printed; and who saved and went as asked has not died.
jobctl why 1 | tr -s ' \n' ' ' >why
has ". Its ranks failed once; most recent: rank 0 was killed by SIGKILL" why
lacks "preempted once" why
jobctl why 1 >out
grep -A5 'rank 0 was killed by SIGKILL (9) (rank_crash)$' out >tail
has "| checkpoint: step 50" tail
lacks "| device:" tail
