#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Snapshots of a GPU's state every third step: a killed rank costs at most three steps, and the run ends with the bits
# of an undisturbed one. Copies finish as late as possible (CUDA_CPU_LATE), so an update that did not wait for the copy
# would be visible in it.
. "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/events.sh"
. "$TOP/tests/e2e/gpus.sh"
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o lib/libnccl.so.2 "$TOP"/tests/fake/nccl*.c -lpthread
export FAKE_GPUS=ab
job=0
for gpus in 1 2; do
    snapshot_spec $gpus 14 3 >$gpus.yaml
    jobctl submit -q $gpus.yaml --wait || { jobctl logs last; jobctl why last; } # not disturbed
    straight=$((job + 1)) job=$((job + 2))
    jobctl logs $straight >log
    has 'snapshots: one in 3 steps' log
    says 'one snapshot in 3 steps, the most that a failure costs: a copy of ' jobctl why $straight
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
