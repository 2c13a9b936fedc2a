# SPDX-License-Identifier: Apache-2.0
# gpus.sh - a machine with GPUs in $WORK: private programs in bin, and in lib the CUDA kernels built for the CPU, a
# stand-in of NVML, and for NCCL a file that cannot be loaded, whatever this machine has; a test that wants NCCL builds
# the stand-in over it. Ends the test with 77 where the kernels are not built. CUDA_CPU_PLUGIN: other kernels
# (tests/cuda_cpu/plant/run.sh).
plugin=${CUDA_CPU_PLUGIN:-$BIN/../obj/tests/cuda_cpu/libjobctl_cuda.so}
[ -f "$plugin" ] || { echo "the CUDA kernels are not built for the CPU: make cuda-cpu"; exit 77; }
cd "$WORK"
mkdir bin lib
cp "$BIN"/jobctl* bin
cp "$plugin" lib/libjobctl_cuda.so
touch lib/libnccl.so.2 # none that can be loaded, whatever this machine has
ln -s libjobctl_cuda.so lib/libcublasLt.so.13 # one library under both names
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o lib/libnvidia-ml.so.1 "$TOP/tests/fake/nvml.c"
export PATH=$WORK/bin:$PATH LD_LIBRARY_PATH=$WORK/lib

# snapshot_spec GPUS STEPS N: a small job that copies its state to memory every N steps, and writes one checkpoint
snapshot_spec() {
    cat <<YAML
resources: {gpus: $1}
env: {CUDA_CPU_DEVICES: $1, CUDA_CPU_LATE: 1, CUDA_CPU_PLANT: "${CUDA_CPU_PLANT:-0}", OMP_NUM_THREADS: 1,
  CUDA_CPU_REPORT: 1, TRAIN_TEST_SNAPSHOT_EVERY: $3}
train:
  model: {preset: tiny, depth: 1}
  data: {path: $TOP/templates/data/tango-icons, dct_block: 16, caption_words: 4, caption_channels: 32}
  batch: {global: 2, micro: 1}
  precision: fp32
  ema: 0.9
  steps: $2
  sample: {after: false}
checkpoint: {every: 1000000 steps}
retry: {backoff: 0.05s..0.1s}
hang: {step: 1h}
YAML
}
