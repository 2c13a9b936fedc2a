# SPDX-License-Identifier: Apache-2.0
# The self-test of sums on two GPUs before a job, with the stand-in for NCCL and CUDA on the CPU: right, wrong, hanging.
# The setting that helps is used for the job, with its reason; the result is cached, and `jobctl doctor` tests again.
. "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/gpus.sh"
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o lib/libnccl.so.2 "$TOP/tests/fake/nccl.c" -lpthread
cat >gpus <<'END'
driver 580.95.05
cuda 13000
gpu GPU-00100010-0000-4000-8000-000000000000 00000000:10:00.0 24564 8.6 NVIDIA GeForce RTX 3090
gpu GPU-00180018-0000-4000-8000-000000000001 00000000:18:00.0 24564 8.6 NVIDIA GeForce RTX 3090
path * * 20
END
export FAKE_NVML=$WORK/gpus CUDA_CPU_DEVICES=2
squeeze() { sed -i 's/  */ /g' "$WORK/out"; }
sum() { code 0 jobctl-train sum --gpus GPU-0,GPU-1 --deadline-ms "$1"; }

sum 60000
engine_json 'o["outcome"] == "ok" and o["words"] == 1 + 4097 + (1 << 20) and o["wrong"] == 0'
FAKE_NCCL=wrong:1:3 sum 60000   # the first one is NCCL's own beginning
engine_json 'o["outcome"] == "wrong data" and o["wrong"] == 1'
FAKE_NCCL=hang:1:2 sum 1000
engine_json 'o["outcome"] == "hangs" and "no sum within 1 s" == o["why"]'
FAKE_NCCL=endless sum 1000
engine_json 'o["outcome"] == "hangs"'
FAKE_NCCL=async:1 sum 60000
engine_json 'o["outcome"] == "fails" and "NCCL failed" in o["why"]'
CUDA_CPU_DEVICES=1 code 67 jobctl-train sum --gpus GPU-0,GPU-1
has 'the GPUs cannot be tested' err

export JOBCTL_GPU_SELFTEST_MS=60000    # this machine may be slow
code 0 jobctl doctor; squeeze
has 'ok GPU sums NCCL sums are correct (1 kind of pairs tested)' out
FAKE_NCCL=wrong:1:3 code 1 jobctl doctor; squeeze
has 'fail GPU sums NCCL sum of GPU 0 and GPU 1: wrong data even with every fallback' out

# The daemon, and with it the agent, get a fault that a remedy helps; then they know.
rm -f "$JOBCTL_HOME"/gpus-*.json
printf 'run: echo "P2P_DISABLE=$NCCL_P2P_DISABLE"\nresources: {gpus: 2}\n' >two.yaml
export FAKE_NCCL='p2p hang:1:1' JOBCTL_GPU_SELFTEST_MS=4000
jobctl daemon --detach    # one that is started by itself would not take the limit over
code 0 jobctl submit two.yaml --wait
code 0 jobctl logs 1
has 'P2P_DISABLE=1' out
code 0 jobctl logs --events 1 --json
has 'the self-test of an NCCL sum passes with this setting and fails without it' out
has 'self-test of an NCCL sum between GPU 0 and GPU 1: hangs' out
has '"copy":"ok"' out
has '"sum_needs":"NCCL_P2P_DISABLE=1"' out
mv lib/libjobctl_cuda.so lib/gone.so    # nothing can be tried from here on
code 0 jobctl submit two.yaml --wait
code 0 jobctl logs 2
has 'P2P_DISABLE=1' out

# Another kernel, driver or NCCL: what was known does not hold.
sed -i 's/driver 580.95.05/driver 580.95.06/' gpus
mv lib/gone.so lib/libjobctl_cuda.so
FAKE_NCCL= code 0 jobctl doctor; squeeze
has 'ok GPU sums' out
code 0 jobctl submit two.yaml --wait
code 0 jobctl logs 3
has 'P2P_DISABLE=' out
lacks 'P2P_DISABLE=1' out
