#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A run that cannot fit into its device's memory is refused: at submit if the GPU is known (a stand-in for NVML, and
# CUDA kernels on the CPU), else at its start, and no attempt follows. train.memory_check: false starts it anyway.
. "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/events.sh"
. "$TOP/tests/e2e/gpus.sh"
printf 'driver 580.1\ncuda 13000\ngpu GPU-small 0000:01:00.0 2048 8.9 NVIDIA RTX 1\n' >nvml.txt
export FAKE_NVML=$WORK/nvml.txt
cat >large.yaml <<YAML
name: large
train:
  model: {preset: sana-600m, depth: 4}
  data: {encoders: synthetic, resolution: 1024, caption_words: 300, caption_channels: 2304}
  batch: {global: 8}
  steps: 9
  ema: 0.9
  grad_checkpointing: true
YAML
refused() { if jobctl submit large.yaml "$@" >out 2>err; then echo "taken: $(cat out)"; exit 1; fi; }
refused
grep -q 'large.yaml:3:10: train.model: the plan needs 2[0-9.]* GiB, this GPU has 2.00 GiB; with train.optimizer.type: came, train.ema: 0 the plan needs 1[0-9.]* GiB, which fits (train.memory_check: false starts the run anyway)' err || { cat err; exit 1; }
refused --dry-run
# what fits is taken; so is what somebody wants to try
jobctl submit -q large.yaml --hold --set train.ema=0 >id
jobctl submit -q large.yaml --hold --set train.memory_check=false >id
jobctl cancel "$(cat id)" >out
# a GPU whose kernels are not there is not used, so its memory does not count
mv lib/libjobctl_cuda.so kept.so
jobctl submit -q large.yaml --hold >id
mv kept.so lib/libjobctl_cuda.so
# on the CPU all memory counts, free or not, and swap space
refused --set resources.gpus=0 --set train.model.depth=256 --set train.model.hidden=4480 --set train.model.heads=40 --set train.model.mlp_ratio=16
has ', this machine has ' err

# Where it runs, before any data is read, and once: here of two ranks. Data that is not there would be another error.
sed 's/preset: sana-600m, depth: 4/preset: tiny/; s/encoders: synthetic/path: nothing/; s/resolution: 1024, caption_words: 300/resolution: 64/' \
    large.yaml >there.yaml
mkdir nothing
jobctl submit -q there.yaml --set env.CUDA_CPU_FAIL=memory:3 --set name=there >id
jobctl wait "$(cat id)" --timeout 60 >/dev/null || true
jobctl why "$(cat id)" >out
grep -q 'train.model: the plan needs [0-9.]* MiB, this GPU has 3.0 MiB; use a smaller model or resolution (train.memory_check: false starts the run anyway) (config_error)' out || { cat out; exit 1; }
has 'config_error' out
[ "$(events_of "$(cat id)" kind=plan | wc -l)" = 1 ]
