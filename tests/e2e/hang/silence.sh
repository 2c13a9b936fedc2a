# SPDX-License-Identifier: Apache-2.0
# A script that reports nothing is watched by the activity of its processes: one that sleeps is detected, and `why`
# shows the evidence; so is one that spins, inside a collective or with a limit set by the user; one that computes for
# longer than the limit is left alone.
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
. "$TOP/tests/e2e/events.sh"
cp "$TOP/templates/jobctl_progress.py" "$WORK"

cat >"$WORK/sleeps.py" <<'PY'
import os, sys, time
if os.environ["JOBCTL_GENERATION"] != "1":
    sys.exit(0)
end = time.process_time() + 1
while time.process_time() < end:
    pass
print("worked")
def hopeless():
    time.sleep(100000)
hopeless()
PY
cat >"$WORK/sleeps.yaml" <<YAML
name: sleeps
run: python3 sleeps.py; true
workdir: $WORK
hang: {silent: 3s}
YAML
jobctl submit -q "$WORK/sleeps.yaml"
wait_event 1 kind=hang | field text
jobctl wait 1
wait_event 1 kind=generation_ended generation=1 | field cause | grep -qx hang_step
wait_event 1 kind=hang | field text |
    grep -q 'rank 0 hangs: none of its processes has shown a sign of life for [0-9.]* s (limit 3.0 s): no output, no CPU work, nothing read'

# Stacks of the script, without changing it.
report="$JOBCTL_HOME/jobs/1/1/incident-1.txt"
grep -A30 'on rank 0, stacks of Python' "$report" | grep 'sleeps.py", line [0-9]* in hopeless' || { cat "$report"; exit 1; }

# A collective that stays unfinished: all CPU time is spinning, and the helper that writes and prints is no life.
cat >"$WORK/spins.py" <<'PY'
import os, sys, struct, threading, time
from jobctl_progress import enter, _put
if os.environ["JOBCTL_GENERATION"] != "1":
    sys.exit(0)
def tick():
    while True:
        time.sleep(0.1)
        print("heartbeat", flush=True)
for step in range(3):
    enter(step)
_put(112, 7, 0, 4096, time.monotonic_ns(), 6)   # all-reduce 7 has begun, 6 are done
threading.Thread(target=tick, daemon=True).start()
while True:
    pass
PY
sed 's/sleeps/spins/' "$WORK/sleeps.yaml" >"$WORK/spins.yaml"
jobctl submit -q "$WORK/spins.yaml" --set retry.max=0
jobctl wait 2 || [ $? = 1 ]
jobctl why 2 | tr -s ' \n' ' ' >"$WORK/why"
grep 'none of its processes has shown a sign of life for .* it is inside all-reduce 7' "$WORK/why"

# hang.step of a script without a flight page: its output shows its steps.
cat >"$WORK/loops.yaml" <<YAML
name: loops
run: |
  echo "step 1"
  if [ \$JOBCTL_GENERATION = 1 ]; then while :; do :; done; fi
hang: {step: 3s}
YAML
jobctl submit -q "$WORK/loops.yaml"
jobctl wait 3
wait_event 3 kind=hang | field text | grep 'rank 0 hangs: it has not printed anything for'

# At work in one phase, three times as long as the silence that is allowed: no hang.
cat >"$WORK/works.py" <<'PY'
import time
from jobctl_progress import enter
enter(0, "init")
enter(0, "forward")
start = time.monotonic()
while time.monotonic() < start + 9:
    pass
print("compiled")
PY
sed 's/sleeps/works/' "$WORK/sleeps.yaml" >"$WORK/works.yaml"
jobctl submit -q "$WORK/works.yaml"
jobctl wait 4
[ "$(events_of 4 kind=hang | wc -l)" = 0 ]
jobctl logs 4 | grep -q compiled

# The plan says what is watched, and how soon.
jobctl plan "$WORK/loops.yaml" | grep -q 'no step, regardless of other activity: 3 s (hang.step)'
jobctl plan "$WORK/sleeps.yaml" --json | field hangs | grep -q 'no sign of life from any rank.*: 3 s (hang.silent)'
jobctl plan 1 | grep -q 'no sign of life from any rank.*: 3 s (hang.silent)'
