#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A GPU that fails is excluded, and the job continues with the others: at once if the hardware reported an error,
# otherwise after two crashes or CUDA errors of its rank. A stand-in for NVML provides the GPUs.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
mkdir lib
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o lib/libnvidia-ml.so.1 "$TOP/tests/fake/nvml.c"
export LD_LIBRARY_PATH=$WORK/lib FAKE_GPUS=abc

# $FAIL is what a rank does on GPU 1, GPU-b.
cat >job.yaml <<'YAML'
resources: {cpus: 1}
retry: {backoff: 10ms..20ms}
env: {FAIL: "exit 1"}
run: |
  gpu=$(echo "$CUDA_VISIBLE_DEVICES" | cut -d, -f$((LOCAL_RANK + 1)))
  echo "rank $RANK of $WORLD_SIZE is on $gpu"
  [ "$gpu" != 1 ] || eval "$FAIL"
YAML

# its own word, once
jobctl submit job.yaml --set name=ecc \
    --set 'env.FAIL=echo uncorrectable ECC error encountered; exit 1' -q
jobctl wait 1 --timeout 60 >/dev/null
jobctl why 1 >out
has 'succeeded' out
has 'GPUs excluded after failures: GPU-b' out
jobctl logs --events 1 >out
has "GPU-b, rank 1's GPU, is no longer used by this job: rank 1 exited with code 1" out
has 'generation 1 starts with 3 ranks' out
has 'generation 1 starts with 2 ranks' out
jobctl logs 1 --rank 1 >out
has 'rank 1 of 2 is on 2' out
events_of 1 | grep -q 'GPU 1 (Fake A100) is not used: rank 1 exited'

# a rank that crashes there, twice
jobctl submit job.yaml --set name=crash --set 'env.FAIL=kill -SEGV $$' -q
jobctl wait 2 --timeout 60 >/dev/null
jobctl logs --events 2 >out
has 'generation 2 starts with 3 ranks' out
has 'twice in a row, rank 1 was killed by SIGSEGV (11)' out
has 'generation 1 starts with 2 ranks' out

# an error of CUDA there: once it is the program's
jobctl submit job.yaml --set name=launch \
    --set 'env.FAIL=mkdir once && echo unspecified launch failure && exit 1 || true' -q
jobctl wait 3 --timeout 60 >/dev/null
jobctl logs --events 3 >out
has 'no hardware error was reported: the GPU is kept' out
has 'generation 2 starts with 3 ranks' out
lacks 'is excluded' out

# a program that fails on rank 1 wherever that is: one GPU is tried, then it is the program
jobctl submit job.yaml --set name=bug --set 'run=test $RANK != 1 || kill -SEGV $$' -q
code 93 jobctl wait 4 --timeout 60
jobctl logs --events 4 >out
[ "$(grep -c 'is no longer used by this job: ' out)" = 1 ]

# a number of GPUs is a promise to a command: it ends, and is told what would do
jobctl submit job.yaml --set name=three --set resources.gpus=3 \
    --set 'env.FAIL=echo uncorrectable ECC error encountered; exit 1' -q
code 1 jobctl wait 5 --timeout 60
jobctl why 5 >out
has 'resources.gpus is 3, but this machine has 2 healthy GPUs' out
has 'set `gpus: auto` to use all of them' out
