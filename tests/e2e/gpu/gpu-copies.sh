# SPDX-License-Identifier: Apache-2.0
# Two GPUs that may copy to each other, according to NVML: the copies are tested, with CUDA on the CPU. Correct copies,
# wrong copies, hanging copies: doctor reports them, and a job of two ranks avoids them.
. "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/gpus.sh"
cat >gpus <<'END'
driver 580.95.05
cuda 13000
gpu GPU-00100010-0000-4000-8000-000000000000 00000000:10:00.0 24564 8.6 NVIDIA GeForce RTX 3090
gpu GPU-00180018-0000-4000-8000-000000000001 00000000:18:00.0 24564 8.6 NVIDIA GeForce RTX 3090
path * * 20
END
export FAKE_NVML=$WORK/gpus CUDA_CPU_DEVICES=2
export JOBCTL_GPU_SELFTEST_MS=60000    # this machine may be slow
squeeze() { sed -i 's/  */ /g' "$WORK/out"; }

code 0 jobctl-train peers --gpus GPU-0,GPU-1
engine_json 'o["direct"] and o["words"] >= 4 << 20 and o["wrong"] == 0 and o["gb_per_s"] > 0'
code 0 jobctl doctor; squeeze
has 'ok GPU copies 1 pair: data correct, at' out
CUDA_CPU_FAIL=peer:no code 0 jobctl doctor; squeeze
lacks 'GPU copies' out
CUDA_CPU_FAIL=driver code 67 jobctl-train peers --gpus GPU-0,GPU-1
has 'the GPUs cannot be tested: asking the driver: CUDA driver version is insufficient' err
CUDA_CPU_FAIL=peer:hang JOBCTL_GPU_SELFTEST_MS=1500 code 1 jobctl doctor; squeeze
has 'fail GPU copies 1 of 1 pairs fail, such as GPU 0 and GPU 1: hangs' out

# The daemon, and with it the agent, get the fault.
export CUDA_CPU_FAIL=peer:wrong
code 1 jobctl doctor; squeeze
has 'fail GPU copies 1 of 1 pairs fail, such as GPU 0 and GPU 1: wrong data' out
rm -f "$JOBCTL_HOME"/gpus-*.json    # the agent shall try itself
printf 'run: echo "P2P_DISABLE=$NCCL_P2P_DISABLE"\nresources: {gpus: 2}\n' >two.yaml
code 0 jobctl submit two.yaml --wait
code 0 jobctl logs 1
has 'P2P_DISABLE=1' out
code 0 jobctl logs --events 1 --json
has 'copies between GPUs hang or arrive corrupted although the driver permits them' out
has 'the copy self-test failed on 1 of 1 pairs of GPUs' out

# The agent is heard and hears while copies hang: a job that is cancelled meanwhile ends at once.
again() { # VARIABLE=VALUE...: a daemon, and with it agents, that have this
    rm -f "$JOBCTL_HOME"/gpus-*.json
    kill -KILL "$(daemon_pid)"
    env "$@" jobctl daemon --detach
}
trying() { wait_for "jobctl-train $1 runs" pgrep -u "$(id -u)" -f "^$WORK/bin/jobctl-train $1"; }
again CUDA_CPU_FAIL=peer:hang JOBCTL_GPU_SELFTEST_MS=240000
job=$(jobctl submit -q two.yaml)
trying peers
jobctl cancel "$job"
code 3 jobctl wait "$job" --timeout 60
code 0 jobctl logs --events "$job"
lacks generation_started out

# A trial that comes to no end is ended, and the job runs with what is known.
mv bin/jobctl-train bin/real
cat >bin/jobctl-train <<'SH'
#!/bin/sh
[ "$1" != peers ] || while :; do echo; sleep 0.1; done
exec "$(dirname "$0")/real" "$@"
SH
chmod +x bin/jobctl-train
again JOBCTL_GPU_SELFTEST_MS=250
code 0 jobctl submit two.yaml --wait
code 0 jobctl logs --events last
has 'the GPU self-test timed out after 2 s: no result' out
