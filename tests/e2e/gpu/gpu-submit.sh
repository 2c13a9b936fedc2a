#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# More ranks or GPUs than the machine has are refused at submit, with a message that names the fix; two jobs never share
# a GPU. A stand-in for NVML provides the GPUs.
. "$TOP/tests/e2e/wait.sh"
cd "$WORK"
lib=$WORK/lib
mkdir "$lib"
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o "$lib/libnvidia-ml.so.1" "$TOP/tests/fake/nvml.c"
export LD_LIBRARY_PATH=$lib FAKE_GPUS=aab

printf 'run: echo "gpus $CUDA_VISIBLE_DEVICES"; until [ -e go ]; do sleep 0.02; done\n' >one.yaml
out=$(jobctl submit one.yaml --set resources.gpus=4 2>&1) && { echo "taken: $out"; exit 1; }
case $out in *"resources.gpus is 4, but this machine has 2"*) ;; *) echo "said: $out"; exit 1 ;; esac
out=$(jobctl submit one.yaml --set resources.ranks=4 2>&1) && { echo "taken: $out"; exit 1; }
case $out in *"Duplicate GPU detected"*) ;; *) echo "said: $out"; exit 1 ;; esac
jobctl submit one.yaml --dry-run --set resources.gpus=4 >/dev/null 2>&1 && exit 1

first=$(jobctl submit one.yaml --set name=first -q)
second=$(jobctl submit one.yaml --set name=second -q)
cpu=$(jobctl submit one.yaml --set resources.gpus=0 -q)
wait_for "job $second waits for the GPUs" says 'next in queue: needs all GPUs' jobctl why "$second"
touch go
jobctl wait "$first" "$second" "$cpu" --timeout 30
[ "$(jobctl logs "$first" | grep gpus | sort -u)" = "gpus GPU-a,GPU-b" ]
[ "$(jobctl logs "$cpu")" = "gpus " ]
