#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A sweep of `train:`: the values are in the spec of each run and change its loss; points that the engine refuses are
# reported with their place; the template is valid.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
cat >icons.yaml <<YAML
name: lr
train:
  model: {family: sana, preset: icons, depth: 1, hidden: 64, heads: 2}
  data: {path: $TOP/templates/data/tango-icons, encoders: dct+hash, dct_block: 8, caption_words: 8}
  batch: {global: 8}
  steps: 6
  seed: 3
resources: {gpus: 0, cpus: 1}
sweep:
  - {train.optimizer.lr: 1.0e-7, train.steps: 6}
  - {train.optimizer.lr: 1.0e-2, train.steps: 4}
YAML
code 0 jobctl submit icons.yaml --wait -q
code 0 jobctl best 1 --by loss --json
json 'len(o["jobs"]) == 2 and o["jobs"][0]["loss"] < o["jobs"][1]["loss"]'
code 0 jobctl show 1_0 --json
json 'o["job"]["steps"] == 6 and o["spec"]["train"]["optimizer"]["lr"] == 1e-7 and o["spec"]["train"]["steps"] == 6'
code 0 jobctl show 1_1 --json
json 'o["job"]["steps"] == 4 and o["spec"]["train"]["optimizer"]["lr"] == 0.01'
[ "$(jobctl show 1_0 --json | field paths.checkpoints)" != "$(jobctl show 1_1 --json | field paths.checkpoints)" ]
code 0 jobctl status 1
has "lr=0.01 steps=4" out

sed -i 's/1.0e-2, train.steps: 4/1.0e-2, train.steps: many/' icons.yaml
code 2 jobctl submit icons.yaml
has 'icons.yaml:11:47: train.steps: expected a whole number' err
cp -r "$TOP/templates/data" .
cp "$TOP/templates/sweep.yaml" .
code 0 jobctl submit --dry-run sweep.yaml --json
json 'o["spec"]["sweep"] == {"train.optimizer.lr": [0.0005, 0.001, 0.002, 0.004], "train.seed": [1, 2]}'
