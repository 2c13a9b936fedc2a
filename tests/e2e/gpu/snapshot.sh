#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two GPUs copy the state of a run to memory during each next step: stand-ins for NVML and NCCL, and CUDA on the CPU,
# where copies finish as late as possible. A rank is killed: the next generation resumes from memory with at most one
# step lost, and ends with the bits of an undisturbed run.
. "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/events.sh"
. "$TOP/tests/e2e/gpus.sh"
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o lib/libnccl.so.2 "$TOP"/tests/fake/nccl*.c -lpthread
export FAKE_GPUS=ab
job=0
for parallel in zero1 fsdp; do
    snapshot_spec 2 9 1 | sed "s/^train:/&\n  parallel: $parallel/" >$parallel.yaml
    jobctl submit -q $parallel.yaml --wait || { jobctl logs last; jobctl why last; } # not disturbed
    straight=$((job + 1)) job=$((job + 2))
    jobctl submit -q $parallel.yaml --set env.TRAIN_TEST_STOP=1:1:4
    wait_event $job kind=rank_started generation=1 rank=1 >event
    victim=$(field pid <event)
    held "$victim" "$JOBCTL_HOME/jobs/$job/1/rank0.flight"
    kill -9 "$victim"
    wait_event $job kind=rank_started generation=2 rank=1 >event
    again=$(field resume_step <event)
    echo "$parallel: killed at step $at, on again from step $again"
    [ "$again" -ge $((at - 1)) ]
    jobctl wait $job --timeout 120
    jobctl logs $job >log
    has "resumed: step $again from memory" log
    for f in model optimizer; do
        cmp "$JOBCTL_HOME"/jobs/{$straight,$job}/checkpoints/step-00000009/$f.safetensors
    done
done

jobctl logs $straight >log
has 'cuda_cpu: 0 pieces of host memory are left page-locked' log

# Where the system does not let memory be pinned, it is said, and none stays pinned.
jobctl submit -q zero1.yaml --set env.CUDA_CPU_FAIL=pin --set train.steps=2 --wait
jobctl logs --events last >out
has 'each snapshot delays a step: cannot pin' out
jobctl logs last >log
has 'cuda_cpu: 0 pieces of host memory are left page-locked' log
