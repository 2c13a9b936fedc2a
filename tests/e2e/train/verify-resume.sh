# SPDX-License-Identifier: Apache-2.0
# jobctl verify-resume repeats the last steps of a job with other numbers of ranks: the same bits for a reproducible
# run, close ones otherwise, and a difference if the checkpoint belongs to another run.
. "$TOP/tests/e2e/expect.sh"
cat >"$WORK/icons.yaml" <<YAML
resources: {ranks: 2, gpus: 0}
train:
  model: {preset: tiny}
  data: {path: $TOP/templates/data/tango-icons, caption_words: 4, caption_channels: 32}
  batch: {global: 7}
  optimizer: {lr: 1.0e-3}
  schedule: {type: cosine}
  steps: 20
  reproducible: true
  sample: {after: false}
checkpoint: {every: 5 steps}
YAML
code 3 jobctl verify-resume 1
has "does not exist" err

code 0 jobctl submit -q "$WORK/icons.yaml" --wait
code 0 jobctl verify-resume 1 --ranks 1,3
has "steps 16 to 20 repeated" out
[ "$(grep -c 'same bits' "$WORK/out")" = 2 ]
code 0 jobctl verify-resume 1 --ranks 4 --steps 10 --json
json "o['from_step'] == 10 and o['to_step'] == 20 and o['replays'][0]['same_bits'] and o['reproducible']"

# Not reproducible: near.
code 0 jobctl submit -q "$WORK/icons.yaml" --set train.reproducible=false --wait
code 0 jobctl verify-resume 2 --ranks 3
grep -q '^3 .*equal up to rounding' "$WORK/out"

# A newest checkpoint that does not follow from the one before: here that of another rate.
code 0 jobctl submit -q "$WORK/icons.yaml" --set train.optimizer.lr=3e-3 --wait
rm -r "$JOBCTL_HOME"/jobs/1/checkpoints/step-00000020
cp -r "$JOBCTL_HOME"/jobs/3/checkpoints/step-00000020 "$JOBCTL_HOME"/jobs/1/checkpoints/
code 1 jobctl verify-resume 1 --ranks 2 --json
json "not o['replays'][0]['right'] and o['replays'][0]['distance'] > 1e-3"

code 2 jobctl verify-resume 1 --ranks none
has "expected numbers from 1 to 64" err
cat >"$WORK/hello.yaml" <<YAML
run: echo hello
YAML
code 0 jobctl submit -q "$WORK/hello.yaml" --wait
code 2 jobctl verify-resume 4
has "no train: block" err

# A step that was left out, for its loss was not finite once, is left out again; a run that goes on from
# the checkpoint after it still knows.
cat >"$WORK/skip.json" <<JSON
{"schema":1,"train":{"model":{"preset":"tiny"},"data":{"path":"$TOP/templates/data/tango-icons",
 "caption_words":4,"caption_channels":32},"batch":{"global":7},"steps":12,"reproducible":true,
 "sample":{"after":false}},"checkpoint":{"every":{"steps":4},"keep":9,"dir":"$WORK/skip"}}
JSON
JOBCTL_SKIP_STEP=5 jobctl-train train --spec "$WORK/skip.json" >"$WORK/skip.log"
[ "$(wc -l <"$WORK/skip/metrics.jsonl")" = 11 ]
rm -r "$WORK/skip/step-00000012"
jobctl-train train --spec "$WORK/skip.json" >"$WORK/skip.log"
code 0 jobctl-train verify-resume --dir "$WORK/skip" --ranks 1,2 --steps 8
[ "$(grep -c 'same bits' "$WORK/out")" = 2 ]

# nothing is left of it
[ -z "$(find "$JOBCTL_HOME/jobs" -name '*verify*')" ]
