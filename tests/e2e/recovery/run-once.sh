# SPDX-License-Identifier: Apache-2.0
# A command that fails at once, without a sign of training, runs once, and the reason explains it; if it used its GPU's
# memory, it is retried (without a GPU: tests/outcomes). The submitter's OMP_NUM_THREADS and PYTHONUNBUFFERED are kept.
# A stand-in for NVML provides the GPU.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
mkdir lib
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o lib/libnvidia-ml.so.1 "$TOP/tests/fake/nvml.c"
export LD_LIBRARY_PATH=$WORK/lib FAKE_NVML=$WORK/gpus
one() { echo 'gpu GPU-a 0000:0a:00.0 40960 8.0 Fake A100'; }
one >gpus
rule='not retried: it failed after [0-9.]* s without a sign of training; set retry.max to retry it anyway'

code 1 jobctl run -- false
cat out err | grep "rank 0 exited with code 1; no reason was printed; $rule"
jobctl why 1 --json | field text | grep "$rule"
[ "$(events_of 1 kind=generation_started | wc -l)" = 1 ]

cat >job.yaml <<'YAML'
retry: {backoff: 10ms..20ms}
resources: {share_gpus: true}
run: |
  echo run >>runs
  jobctl-agent gpu-events GPU-a | grep -m 2 held..true
  exit 3
YAML

# A program on its GPU: two lines of what the agent reads, too, since a moment longer.
{ one; echo 'proc 0 1 900'; } >gpus # for agents from now on
code 93 jobctl submit -q --wait job.yaml
[ "$(wc -l <runs)" = 3 ] || { cat runs; jobctl why last; exit 1; }
one >gpus

# Threads and output as the submitter wants them, like torchrun; else as planned.
says_run() { # WANTED [NAME=VALUE...]
    local want=$1
    shift
    code 0 env "$@" jobctl run -g 0 -- sh -c 'echo "it has $OMP_NUM_THREADS $PYTHONUNBUFFERED"'
    has "it has $want" out
}
says_run '1 1' -u OMP_NUM_THREADS -u PYTHONUNBUFFERED
says_run '3 0' OMP_NUM_THREADS=3 PYTHONUNBUFFERED=0
printf 'env: {OMP_NUM_THREADS: "5"}\nrun: echo "it has $OMP_NUM_THREADS"\n' >own.yaml
OMP_NUM_THREADS=3 code 0 jobctl submit -q --wait own.yaml
jobctl logs last | grep -qx 'it has 5'
