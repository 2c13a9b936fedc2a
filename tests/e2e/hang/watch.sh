# SPDX-License-Identifier: Apache-2.0
# Any command that reports its state is watched like the engine: a Python script that reports its steps through
# templates/jobctl_progress.py hangs and is restarted; a script whose output stops is restarted by a rule of watch:, as
# is one whose loss is NaN.
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
. "$TOP/tests/e2e/events.sh"
cp "$TOP/templates/jobctl_progress.py" "$WORK"

cat >"$WORK/train.py" <<'PY'
import os, time
from jobctl_progress import enter, work
generation = int(os.environ["JOBCTL_GENERATION"])
for step in range(40):
    enter(step, "data")
    time.sleep(0.01)
    enter(step)
    time.sleep(0.02)
    if step == 20 and generation == 1:
        enter(step, "validate")
        for i in range(10):                 # 3 s, but it moves: no hang
            work(i, 10)
            time.sleep(0.3)
        enter(step, "backward")
        time.sleep(1000)                    # this is one
print("all steps done")
PY
cat >"$WORK/hang.yaml" <<YAML
name: script
run: exec python3 train.py
workdir: $WORK
hang: {step: 2s}
YAML
jobctl submit -q "$WORK/hang.yaml"
wait_event 1 kind=hang | field text
jobctl wait 1
jobctl logs 1 | grep -q 'all steps done'
[ "$(jobctl logs --events 1 | grep -c ' hang: rank 0 hangs in backward of step 21: no progress for 2')" = 1 ]

cat >"$WORK/quiet.yaml" <<YAML
name: quiet
run: |
  for i in 1 2 3 4 5 6; do echo "step \$i loss:0.\$i"; sleep 0.2; done
  if [ \$JOBCTL_GENERATION = 1 ]; then sleep 1000; fi
watch: [{name: loss, pattern: 'loss:([0-9.]+)', every: 1s}]
YAML
jobctl submit -q "$WORK/quiet.yaml"
jobctl wait 2
jobctl logs --events 2 | grep -q 'hang: no output matched watch rule "loss" for 1'

cat >"$WORK/nan.yaml" <<YAML
name: nan
run: |
  echo "loss: 0.5"
  if [ \$JOBCTL_GENERATION = 1 ]; then echo "loss: nan"; sleep 1000; fi
watch:
  - {name: loss, pattern: 'loss: ([^ ]+)', below: 100}
  - {name: never, pattern: 'never', start_within: 1s, action: warn}
YAML
jobctl submit -q "$WORK/nan.yaml"
jobctl wait 3
[ "$(wait_event 3 kind=generation_ended generation=1 | field cause)" = nan_loss ]
jobctl why 3 | tr -s ' \n' ' ' | grep -q 'watch rule "loss": rank 0 printed nan (limit: below 100)'
