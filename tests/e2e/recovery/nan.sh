# SPDX-License-Identifier: Apache-2.0
# A loss that is not finite: back to the newest checkpoint, once more without that batch, then the run is given up: a
# diverging run is not tried ten times.
cat >"$WORK/nan.yaml" <<YAML
name: diverges
train:
  model: {preset: tiny}
  data: {path: $TOP/templates/data/tango-icons}
  batch: {global: 4}
  steps: 400
  optimizer: {lr: 10, clip: 0}
  sample: {after: false}
checkpoint: {every: 1 steps}
YAML
. "$TOP/tests/e2e/events.sh"
jobctl submit -q "$WORK/nan.yaml"
jobctl wait 1 || [ $? = 1 ]
jobctl logs --events 1 | grep -v 'checkpoint of'
[ "$(events_of 1 kind=generation_ended | wc -l)" = 2 ]
jobctl logs --events 1 | grep -q 'warning from rank 0: step [0-9]* is skipped: its loss or gradient was not finite'
jobctl why 1 | tr -s ' \n' ' ' | grep -q 'skipping the batch of an earlier NaN did not help'
