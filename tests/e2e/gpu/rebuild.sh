#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A rank with a GPU dies while the other waits for it in NCCL, which never reports it: the other abandons its
# communicator and continues in its process. A CUDA error is not a lost rank: the process ends, and its GPU is kept the
# first time. GPUs and NCCL are stand-ins (tests/cuda_cpu, tests/fake/nccl.c).
. "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/events.sh"
. "$TOP/tests/e2e/gpus.sh"
export FAKE_GPUS=ab
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o lib/libnccl.so.2 "$TOP"/tests/fake/nccl*.c -lpthread
cat >job.yaml <<YAML
resources: {gpus: auto}
env: {CUDA_CPU_DEVICES: 2, OMP_NUM_THREADS: 1, FAKE_NCCL_LOG: $WORK/asked}
train:
  model: {preset: tiny, depth: 1}
  data: {path: $TOP/templates/data/tango-icons, dct_block: 16, caption_words: 4, caption_channels: 32}
  batch: {global: 2, micro: 1}
  precision: fp32
  steps: 2
  sample: {after: false}
checkpoint: {every: 1000000 steps}
retry: {backoff: 0.05s..0.1s}
YAML

# Rank 1 never does the 40th collective; both have asked for it, and more.
both_wait() { [ "$(wc -l <asked)" -ge 80 ]; }
for how in ddp fsdp; do
    : >asked
    id=$(jobctl submit -q job.yaml --set env.FAKE_NCCL=hang:1:40 --set train.steps=1000000 --set train.parallel=$how)
    wait_for 60 "both ranks have asked for 40 collectives" both_wait
    read -r a b <<<"$(wait_event "$id" kind=generation_started generation=1 | field pids)"
    kill -9 "$b"
    read -r a2 b2 <<<"$(wait_event "$id" kind=generation_started generation=2 | field pids)"
    [ "$a" = "$a2" ]
    [ "$b" != "$b2" ]
    code 0 jobctl logs --events "$id"
    has 'restarting now as generation 2: 1 of 2 ranks keep their processes' out
    jobctl cancel -q "$id" --now
    jobctl wait "$id" >/dev/null || [ $? = 3 ]
done

# The GPU of rank 1 has an error of CUDA in the first backward pass, twice.
id=$(jobctl submit -q job.yaml --set train.parallel=fsdp --set env.CUDA_CPU_FAIL=kernel:linear_back --set env.CUDA_CPU_BROKEN=1)
jobctl wait "$id" --timeout 120
code 0 jobctl logs --events "$id"
has 'rank 1 exited with code 83: a CUDA call failed: ' out
has 'restarting now as generation 2: no hardware error was reported: the GPU is kept' out
has "GPU-b, rank 1's GPU, is no longer used by this job" out
[ "$(grep -c 'exited with code 83: .* (cuda_error)' out)" = 2 ]
lacks 'keep their processes' out
has 'generation 1 starts with 1 rank' out
