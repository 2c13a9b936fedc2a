#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A train: job on a GPU: the demo's unchanged spec, on a machine with a stand-in for NVML and CUDA on the CPU. Then
# failures: no plugin, a driver that is too old, too little memory, a failing launch; why explains each.
. "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/gpus.sh"
export FAKE_GPUS=ab
cp -r "$TOP/templates" .

# run NAME --set...: the demo made short; its log in $WORK/NAME.log, what why says in $WORK/out
run() {
    local name=$1
    shift
    set -- --set train.steps=1 --set train.batch.global=4 --set train.sample.before=false \
        --set train.sample.after=false --set train.model.depth=1 --set train.schedule.warmup=0 "$@"
    id=$(jobctl submit templates/sana-icons.yaml --set name="$name" "$@" -q)
    jobctl wait "$id" --timeout 120 >/dev/null || true
    jobctl logs "$id" >"$name.log" 2>&1 || true
    jobctl why "$id" >out 2>&1
}

run gpu
has 'succeeded' out
grep -q 'device: CUDA on the CPU' gpu.log
events_of "$id" | grep -q '"backend":"CUDA on the CPU'
jobctl plan templates/sana-icons.yaml >out
has 'CUDA_VISIBLE_DEVICES=0' out
lacks 'GPU-b' out
has 'using one of 2 GPUs: more need NCCL' out
has 'free on CUDA on the CPU' out

run cpu --set resources.gpus=0
has 'succeeded' out
grep -q 'device: cpu' cpu.log
# Two GPUs, a rank each, where NCCL is found; its stand-in sums over a socket.
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o lib/libnccl.so.2 "$TOP"/tests/fake/nccl*.c -lpthread
run uneven --set retry.max=0
has 'rank 1 computes on the CPU, but rank 0 on a GPU' out
run pair --set train.batch.global=4 --set env.CUDA_CPU_DEVICES=2
has 'succeeded' out
grep -q 'gpus: 2, connected by NCCL' pair.log
events_of "$id" kind=plan env | grep -q '"CUDA_VISIBLE_DEVICES","value":"0,1"'
: >lib/libnccl.so.2

run old --set env.CUDA_CPU_FAIL=old
has 'succeeded' out
has 'running on the CPU: the NVIDIA driver is too old' out
grep -q 'device: cpu.*the NVIDIA driver is too old' old.log
grep -q '^WARNING: GPU 0 was assigned: running on the CPU: the NVIDIA driver is too old: .* driver 580' old.log
# A job that has not asked for the CPU ends instead, says which driver is needed, and is not tried again.
run strict --set env.CUDA_CPU_FAIL=old --set train.backend=cuda
has 'failed' out
has 'needs driver 580 or newer' out
has 'train.backend: auto computes on the CPU instead' out
has '(config_error)' out
code 0 jobctl plan templates/sana-icons.yaml --set train.backend=cuda
has 'JOBCTL_BACKEND=cuda' out
code 2 jobctl submit templates/sana-icons.yaml --set train.backend=gpu
has 'cuda' err
# While it runs, the table of jobs and the view of one have the line, too.
id=$(jobctl submit templates/sana-icons.yaml --set name=slow --set env.CUDA_CPU_FAIL=ptx \
    --set train.sample.before=false --set train.steps=1000000 -q)
told() { jobctl status >out && grep -qF 'running on the CPU: the NVIDIA driver is too old: it must compile' out; }
wait_for 120 'status tells of the CPU' told
code 0 jobctl show "$id"
has 'install a driver for CUDA 13.1 or newer' out
jobctl cancel "$id" -q --now

run small --set env.CUDA_CPU_FAIL=memory:70 --set train.batch.micro=4
has 'succeeded' out
has 'micro-batches of 4 do not fit; the next start uses 2: out of GPU memory' out
has '(gpu_oom)' out
has 'reduced to micro-batches of 2: the run ran out of' out

run none --set env.CUDA_CPU_FAIL=memory:40 --set train.batch.micro=1 \
    --set train.grad_checkpointing=false --set train.memory_check=false
has 'one sample at a time does not fit, so a restart cannot help' out
has 'config_error' out

run fault --set env.CUDA_CPU_FAIL=launch:40 --set retry.max=0
has 'a CUDA call failed: ' out
has 'an illegal memory access was encountered' out
has 'no hardware error was reported: the GPU is kept' out
has '(cuda_error)' out
lacks 'excluded' out

# Of two GPUs the first reports that it is broken: it is left out by its UUID, and the second one makes the same batches.
run moved --set env.CUDA_CPU_FAIL=launch:40 --set env.CUDA_CPU_ERROR=214 --set env.CUDA_CPU_BROKEN=0
has 'succeeded' out
has '(gpu_fault)' out
has 'GPUs excluded after failures: GPU-a' out
events_of "$id" kind=plan env | grep -q '"CUDA_VISIBLE_DEVICES","value":"1"'

rm lib/libjobctl_cuda.so
run missing --set train.backend=cuda
has 'failed' out
has 'libjobctl_cuda.so is missing' out
run bare
has 'succeeded' out
has 'running on the CPU: libjobctl_cuda.so is missing: it is neither beside this program' out
