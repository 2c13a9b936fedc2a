#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Snapshots of a GPU's state every third step: a killed rank costs at most three steps, and the run ends with the
# bits of one that was left alone.  Copies finish as late as can be (CUDA_CPU_LATE), so an update that does not wait
# for the copy would be in it.
. "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/events.sh"
. "$TOP/tests/e2e/gpus.sh"
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o lib/libnccl.so.2 "$TOP"/tests/fake/nccl*.c -lpthread
export FAKE_GPUS=ab
cat >icons.yaml <<YAML
resources: {gpus: GPUS}
env: {CUDA_CPU_DEVICES: GPUS, CUDA_CPU_LATE: 1, OMP_NUM_THREADS: 1, TRAIN_TEST_SNAPSHOT_EVERY: 3}
train:
  model: {preset: tiny, depth: 1}
  data: {path: $TOP/templates/data/tango-icons, dct_block: 16, caption_words: 4, caption_channels: 32}
  batch: {global: 2, micro: 1}
  precision: fp32
  ema: 0.9
  steps: 14
  sample: {after: false}
checkpoint: {every: 1000000 steps}
retry: {backoff: 0.05s..0.1s}
hang: {step: 1h}
YAML
job=0
for gpus in 1 2; do
    sed "s/GPUS/$gpus/g" icons.yaml >$gpus.yaml
    jobctl submit -q $gpus.yaml --wait || { jobctl logs last; jobctl why last; } # not disturbed
    straight=$((job + 1)) job=$((job + 2))
    jobctl logs $straight >log
    has 'snapshots: one in 3 steps' log
    has "input: $((28 / gpus - 1)) of $((28 / gpus)) micro-batches were read ahead" log
    jobctl submit -q $gpus.yaml --set env.TRAIN_TEST_STOP=1:0:12
    wait_event $job kind=rank_started generation=1 rank=0 >event
    victim=$(field pid <event)
    held "$victim" "$JOBCTL_HOME/jobs/$job/1/rank0.flight"
    kill -9 "$victim"
    wait_event $job kind=rank_started generation=2 rank=0 >event
    again=$(field resume_step <event)
    echo "$gpus GPUs: killed at step $at, on again from step $again"
    [ "$at" -eq 12 ] && [ "$again" -eq 9 ] # of 1, 2, 3, 6, 9; that of 12 is not sealed yet
    jobctl wait $job --timeout 120
    jobctl logs $job >log
    has "resumed: step $again from memory" log
    for f in model optimizer; do
        cmp "$JOBCTL_HOME"/jobs/{$straight,$job}/checkpoints/step-00000014/$f.safetensors
    done
done
