# SPDX-License-Identifier: Apache-2.0
# gpus.sh - a machine with GPUs in $WORK: programs of their own in bin, and in lib the CUDA kernels built for
# the CPU, a stand-in of NVML, and for NCCL a file that cannot be loaded, whatever this machine has; a test that
# wants NCCL builds the stand-in over it. Ends the test with 77 where the kernels are not built.
plugin=$BIN/../obj/tests/cuda_cpu/libjobctl_cuda.so
[ -f "$plugin" ] || { echo "the CUDA kernels are not built for the CPU: make cuda-cpu"; exit 77; }
cd "$WORK"
mkdir bin lib
cp "$BIN"/jobctl* bin
cp "$plugin" lib/libjobctl_cuda.so
touch lib/libnccl.so.2 # none that can be loaded, whatever this machine has
ln -s libjobctl_cuda.so lib/libcublasLt.so.13 # one library under both names
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o lib/libnvidia-ml.so.1 "$TOP/tests/fake/nvml.c"
export PATH=$WORK/bin:$PATH LD_LIBRARY_PATH=$WORK/lib
