# SPDX-License-Identifier: Apache-2.0
# One of three ranks is stopped (SIGSTOP) in steps of about 50 ms: it is named, a report is made before anything is
# ended, and training continues. The times of both are printed. A stopped command is detected as well. jobctl show
# --report packs the files, without secrets.
cat >"$WORK/icons.yaml" <<YAML
name: icons
resources: {ranks: 3, cpus: 1}
train:
  model: {preset: icons, depth: 1}
  data: {path: $TOP/templates/data/tango-icons}
  batch: {global: 6}
  steps: 100000
  sample: {after: false}
checkpoint: {every: 10 steps}
YAML
. "$TOP/tests/e2e/events.sh"

jobctl submit -q "$WORK/icons.yaml"
until_step 1 15
echo "$(job_field 1 step) steps; $(show_ms 1) ms a step"
victim=$(rank_pid 1 1)
before=$(date +%s%3N)
kill -STOP "$victim"
hang=$(wait_event 1 kind=hang)
seen=$(($(date +%s%3N) - before))
echo "stopped rank 1: seen after $seen ms: $(echo "$hang" | field text)"
[ "$(echo "$hang" | field rank)" = 1 ]
echo "$hang" | grep -q 'its process is stopped (SIGSTOP)'
wait_event 1 kind=rank_started generation=2 >/dev/null
until_step 1 1 2
back=$(($(date +%s%3N) - before))
echo "at work again after $back ms"
ended=$(wait_event 1 kind=generation_ended generation=1)
[ "$(echo "$ended" | field cause)" = hang_step ]
report="$JOBCTL_HOME/jobs/1/1/incident-1.txt"
echo "$(grep -c '^#[0-9]' "$report" || true) frames of native stacks in $(wc -c <"$report") bytes"
for want in '^rank 0: step' '^rank 1: step' '^rank 2: step' 'State:.*T (stopped)' 'in [a-z-]* [0-9]* for' \
    'last phases, seconds ago' '| step [0-9]*/100000' '^node:' 'wchan' "native stacks of process $victim"; do
    grep -q "$want" "$report" || { echo "no '$want' in:"; cat "$report"; exit 1; }
done
# A report waits 2 s for gdb, which a busy machine may need alone; asked by hand it has no limit.
! command -v gdb >/dev/null || jobctl-agent inspect $$ | grep '^#[0-9]' >/dev/null
jobctl why 1 | tr -s " \n" " " >"$WORK/why"
grep -q 'Before that, rank 0: step' "$WORK/why" || { cat "$WORK/why"; exit 1; }
grep -q 'Its ranks failed once; most recent: rank 1 hangs in .* (hang_step.*)\. Before that' "$WORK/why" || { cat "$WORK/why"; exit 1; }
jobctl cancel 1
jobctl wait 1 || [ $? = 3 ]
! kill -0 "$victim" 2>/dev/null || exit 1

# A command is watched too: stopped is stopped. Nothing else about it is a hang.
cat >"$WORK/sleep.yaml" <<YAML
name: sleeper
run: if [ \$JOBCTL_GENERATION = 1 ]; then sleep 100; fi
YAML
jobctl submit -q "$WORK/sleep.yaml"
wait_event 2 kind=generation_started >/dev/null
kill -STOP "$(wait_event 2 kind=generation_started | field pids)"
wait_event 2 kind=hang | field text
jobctl wait 2
grep -q '^rank 0: step unknown: the command writes no flight page' "$JOBCTL_HOME/jobs/2/1/incident-1.txt"

# All that is known, in one file to send to somebody; without what is secret.
cat >"$WORK/secret.yaml" <<YAML
name: secretive
run: echo "my key is \$SAUCE, also token=abcd1234"; exit 3
secrets: [SAUCE]
retry: {max: 0}
YAML
export SAUCE=tabasco-and-lime
jobctl submit -q "$WORK/secret.yaml"
jobctl wait 3 || [ $? = 1 ]
jobctl show 3 --report "$WORK/3.tgz"
jobctl show 1 --report "$WORK/1.tgz"
tar xzf "$WORK/3.tgz" -C "$WORK"
tar xzf "$WORK/1.tgz" -C "$WORK"
grep -q 'my key is \[redacted\], also token=\[redacted\]' "$WORK/job-3/attempt-1/rank0.log"
! grep -rq 'tabasco\|abcd1234' "$WORK/job-3" || exit 1
for f in why.json job.json events.jsonl facts.json plan.json spec.yaml attempt-1/agent.log \
    attempt-1/rank2.log attempt-1/incident-1.txt; do
    [ -s "$WORK/job-1/$f" ] || { echo "no $f in the report:"; tar tzf "$WORK/1.tgz"; exit 1; }
done
grep -q 'native stacks' "$WORK/job-1/attempt-1/incident-1.txt"
