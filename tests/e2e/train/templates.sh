#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The presets for measuring: planned for GPUs that are not present, with the authors' parameter counts; shrunk, they
# train on random numbers, and are timed from the same spec.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
export TMPDIR=$WORK/tmp
mkdir tmp
plan() { # TEMPLATE EXPRESSION...: of what jobctl-train says, in `t`
    jobctl plan "$TOP/templates/$1.yaml" --gpu-memory 16,80,141 --json >out
    python3 - "$2" <<'PY'
import json, sys
t = json.load(open("out"))["train"]
assert eval(sys.argv[1]), json.dumps(t, indent=1)
PY
}
plan sana-1600m 't["params"] == 1604462752 and abs(t["flops_per_step"] / 32 / 1e12 - 8.9) < 0.05'
plan sana-1600m '[m["fits"] for m in t["memory"]] == [False, True, True]'
plan sana-1600m 't["memory"][1]["micro_batch"] < t["memory"][2]["micro_batch"] <= 32'
plan sana-1600m 'all(m["planned_bytes"] <= m["budget_bytes"] for m in t["memory"] if m["fits"])'
plan sana-600m 't["params"] == 591747872 and abs(t["flops_per_step"] / 128 / 1e12 - 0.9469) < 0.01'
plan sana-600m 'all(m["fits"] for m in t["memory"])'
[ -z "$(ls tmp)" ]
jobctl plan "$TOP/templates/sana-1600m.yaml" --gpu-memory 16,80 >out
has 'of 16.00 GiB free on a GPU with 16 GiB: this does not fit' out
has 'the most that fits into 85 % of the 80.00 GiB free' out
has '284.80 TFLOP per step' out
has " of this machine's memory more per rank" out
has 'one in about 54 steps (the run measures it): a copy takes 0.77 s at 25 GB/s' out
# What fits nowhere: exit code 1, and what would fit.
code 1 jobctl plan "$TOP/templates/sana-1600m.yaml" --gpu-memory 2
has 'no setting makes it fit: at least ' out
code 1 jobctl plan "$TOP/templates/sana-1600m.yaml" --gpu-memory 16 --json
[ "$(read_json get train.memory.0.would_fit.0.change <out)" = 'resources.gpus: 4' ]
code 2 jobctl plan "$TOP/templates/sana-1600m.yaml" --gpu-memory much
has '--gpu-memory is "much"; expected up to 8 sizes in GiB' err

small="--set train.model.depth=1 --set train.model.hidden=64 --set train.model.heads=2
    --set train.data.resolution=64 --set train.data.caption_channels=16 --set train.batch.global=6"
jobctl submit "$TOP/templates/sana-600m.yaml" --dry-run --json $small >spec.json
# What snapshots cost is measured on request, and what communication would on a cluster that is not here.
jobctl-train bench --config "$TOP/tests/golden/sana/bench_configs.json" --case tiny-base-b8 --steps 3 --snapshots \
    --model-cluster 64x8 >out
grep -q '^snapshots  .* an update takes [0-9.]* ms of CPU time, without [0-9.]*$' out
jobctl-train bench --model-cluster 64x8 --params 1.6e9 --step-ms 500 >out
[ "$(grep -c '^ *512 ' out)" = 2 ]
has '25 GbE per node' out
jobctl-train bench --spec spec.json --steps 2 --json >out 2>err
has '"samples_per_s"' out
has "micro-batches of 6 (a rank's whole share of the step)" err
jobctl submit "$TOP/templates/sana-600m.yaml" --wait $small --set train.batch.micro=4 >/dev/null
jobctl logs last >out
has 'latents 32 x 2 x 2, captions of 300 words; random numbers' out
has 'in 2 micro-batches of 4 (set by train.batch.micro)' out
