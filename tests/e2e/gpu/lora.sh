#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Adapters on GPUs (the kernels run on the CPU, NCCL is a stand-in): the losses are those of the CPU, up to bf16
# rounding; two GPUs that share the state train the bits of one; pictures are drawn with the frozen weights of the
# training model.
. "$TOP/tests/e2e/events.sh"
. "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/gpus.sh"
export FAKE_GPUS=ab
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o lib/libnccl.so.2 "$TOP"/tests/fake/nccl*.c -lpthread
cat >base.json <<JSON
{"schema":1,"train":{"model":{"preset":"tiny"},"data":{"path":"$TOP/templates/data/tango-icons","caption_words":4,
 "caption_channels":32},"batch":{"global":4},"steps":1,"sample":{"after":false}},
 "checkpoint":{"every":{"steps":1},"dir":"$WORK/base"}}
JSON
jobctl-train train --backend cpu --spec base.json >base.log
run() { # NAME GPUS SHARING: to the end
    cat >"$1.yaml" <<YAML
name: $1
resources: {gpus: $2}
env: {OMP_NUM_THREADS: 1, CUDA_CPU_DEVICES: 2}
train:
  model: {preset: tiny, weights: base/step-00000001}
  lora: {rank: 4}
  data: {path: $TOP/templates/data/tango-icons, caption_words: 4, caption_channels: 32}
  batch: {global: 4}
  steps: 3
  optimizer: {lr: 1.0e-2}
  reproducible: true
  parallel: $3
  sample: {after: $4, steps: 2, count: 2}
checkpoint: {every: 1000000 steps, dir: $WORK/$1}
retry: {max: 0}
YAML
    jobctl submit -q --wait "$1.yaml" >/dev/null
}
run cpu 0 ddp false
run one 1 ddp true
run two 2 fsdp false
jobctl logs one >one.log
has 'device: CUDA on the CPU' one.log
has 'frozen: ' one.log
jobctl logs two >two.log
has 'gpus: 2, connected by NCCL' two.log
ls one/samples/*.png
cmp {one,two}/step-00000003/model.safetensors
cmp {one,two}/step-00000003/optimizer.safetensors
python3 - <<'PY'
import json
cpu, gpu = ([json.loads(line)["loss"] for line in open(d + "/metrics.jsonl")] for d in ("cpu", "one"))
assert len(cpu) == len(gpu) == 3, (cpu, gpu)
assert all(abs(a - b) < 0.02 * a for a, b in zip(cpu, gpu)), (cpu, gpu)
PY
