# SPDX-License-Identifier: Apache-2.0
# The drive with the mirror hangs. A cancelled job reports that it waits for the last copy, and `cancel --now` ends it,
# also as a second cancel and if the mirror was never ready.
cd "$WORK"
. "$TOP/tests/e2e/expect.sh"
${CC:-cc} -D_GNU_SOURCE -shared -fPIC -o hang.so "$TOP/tests/fake/hang.c" -ldl
mkdir drive
cat >trains.yaml <<YAML
name: trains
train:
  model: {preset: tiny}
  data: {path: $TOP/templates/data/tango-icons}
  batch: {global: 4}
  steps: 100000
  sample: {after: false}
checkpoint: {every: 100000 steps, mirror: $WORK/drive}
YAML
LD_PRELOAD=$WORK/hang.so FAKE_HANG=/drive/:$WORK/hang jobctl daemon --detach
cancelled() { job_is "$1" result cancelled; }
stepped() { [ "$(job_field "$1" step)" -gt 0 ]; }

# Cancelled, it waits for the last copy and says so; a second cancel does not wait.
jobctl submit -q trains.yaml
wait_for "steps of job 1" stepped 1
touch hang
code 0 jobctl cancel 1
wait_for "what it waits for" matches "warning: the last copy to the mirror $WORK/drive/trains is not finished" jobctl logs --events 1
jobctl why 1 --json | read_json holds "'The last copy to the mirror $WORK/drive/trains is not finished' in o['text']"
job_is 1 state stopping
code 0 jobctl cancel --now 1
wait_for "the end of job 1" cancelled 1
rm hang

# At once.
jobctl submit -q --set name=again trains.yaml
wait_for "steps of job 2" stepped 2
touch hang
code 0 jobctl cancel --now 2
wait_for "the end of job 2" cancelled 2
code 0 jobctl logs --events 2
lacks "last copy" out

# The mirror of job 3 is never ready: nothing is to be copied.
jobctl submit -q --set name=third trains.yaml
started() { last_event 3 kind=plan; }
wait_for "the plan of job 3" started
code 0 jobctl cancel 3
wait_for "the end of job 3" cancelled 3
code 0 jobctl logs --events 3
lacks "last copy" out
