#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Only the driver reports trouble with a GPU while its ranks wait for it: the GPU is excluded, and the job continues
# without it. Errors that concern only a program are reported, without further effect. A driver that blocks delays
# nobody. A stand-in for NVML provides the GPUs.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
mkdir lib
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o lib/libnvidia-ml.so.1 "$TOP/tests/fake/nvml.c"
export LD_LIBRARY_PATH=$WORK/lib FAKE_NVML=$WORK/gpus
machine() { # LINES: three GPUs, and these
    cat >gpus <<'END'
driver 580.95.05
gpu GPU-a 00000000:0A:00.0 81920 8.0 NVIDIA A100 80GB PCIe
gpu GPU-b 00000000:0B:00.0 81920 8.0 NVIDIA A100 80GB PCIe
gpu GPU-c 00000000:0C:00.0 81920 8.0 NVIDIA A100 80GB PCIe
END
    printf '%s\n' "$@" >>gpus
}
cat >job.yaml <<'YAML'
resources: {cpus: 1}
retry: {backoff: 10ms..20ms}
env: {LAST: "3"}
run: |
  echo "rank $RANK of $WORLD_SIZE"
  touch here-$RANK
  [ $WORLD_SIZE -gt $LAST ] || exit 0
  exec sleep 1000
YAML

# Xid 79 of the second GPU: its ranks would sleep on.
machine "event 1 8 31 $WORK/31" "event 1 8 79 $WORK/79"
jobctl submit job.yaml --set env.LAST=2 -q
wait_for "rank 1 runs" test -e here-1
touch 31
wait_event 1 'text~reports Xid 31' >/dev/null
touch 79
jobctl wait 1 --timeout 60
jobctl logs --events 1 >out
has 'GPU 1 (GPU-b) reports Xid 31: GPU memory page fault' out
has 'GPU 1 (GPU-b) reports Xid 79: the GPU has fallen off the bus' out
has "stopping generation 1: rank 1's GPU failed" out
has "GPU-b, rank 1's GPU, is no longer used by this job" out
has 'generation 1 starts with 2 ranks' out
[ "$(grep -c 'is no longer used by this job: ' out)" = 1 ]
last_event 1 cause=gpu_fault
jobctl why 1 >out
has 'GPUs excluded after failures: GPU-b' out

# It is lost without an event of its own; memory that cannot be corrected is told by its kind.
rm -f here-*
machine "event 2 0 0 $WORK/lost"
touch lost
jobctl submit job.yaml --set env.LAST=2 -q
jobctl wait 2 --timeout 60
jobctl logs --events 2 >out
has 'GPU 2 (GPU-c) reports Xid 79' out
machine "event 0 2 0 $WORK/lost"
jobctl submit job.yaml --set env.LAST=2 -q
jobctl wait 3 --timeout 60
jobctl logs --events 3 >out
has 'GPU 0 (GPU-a) reports Xid 48: uncorrectable memory error (double-bit ECC)' out

# A slice of a divided GPU: what concerns its neighbour is not told, what concerns it or the whole GPU is.
rm -f here-* 31 79
cat >gpus <<END
driver 580.95.05
gpu GPU-m 00000000:0D:00.0 81920 8.0 NVIDIA A100 80GB PCIe
mig 0 MIG-one 19968
mig 0 MIG-two 19968
event 0 8 13 $WORK/13 2
event 0 8 31 $WORK/31 1
event 0 8 63 $WORK/63
END
job=$(jobctl submit job.yaml --set env.LAST=0 -q)
wait_for "rank 0 runs" test -e here-0
code 0 jobctl logs --events "$job" --json
has '"gpu":"MIG-one"' out
touch 13 31 63
wait_event "$job" 'text~Xid 63' >/dev/null
jobctl logs --events "$job" >out
has 'GPU 0 (MIG-one) reports Xid 31' out
has 'GPU 0 (MIG-one) reports Xid 63' out
lacks 'Xid 13' out
jobctl cancel "$job"
code 3 jobctl wait "$job" --timeout 60

# On several nodes each listens to its own, and the first one is told.
rm -f 31 79
machine "event 1 8 31 $WORK/31" "event 1 8 79 $WORK/79"
job=$(jobctl submit -q --set env.LAST=1 --set resources.nodes=2 --set resources.gpus=1 --set retry.max=0 job.yaml)
wait_event "$job" 'text~generation 1 starts with 2 ranks' >/dev/null
touch 31
wait_event "$job" 'text~node1: GPU 1 (GPU-b) reports Xid 31' >/dev/null
touch 79
jobctl wait "$job" --timeout 60 || true
jobctl logs --events "$job" >out
has 'node1: GPU 1 (GPU-b) reports Xid 79: the GPU has fallen off the bus' out
has "stopping generation 1: rank 1's GPU failed" out
has "GPU-b, rank 1's GPU" out

# A driver that never answers, and one that has no events.
for fault in 'hang nvmlEventSetWait_v2' 'hang nvmlEventSetCreate' 'fail nvmlEventSetCreate 3' \
    'crash nvmlDeviceRegisterEvents'; do
    machine "$fault"
    id=$(jobctl submit job.yaml -q)
    jobctl wait "$id" --timeout 60
done
# Nothing of it is left, a moment after the last job.
watchers() {
    for d in /proc/[0-9]*; do
        { tr '\0' ' ' <"$d/cmdline" | grep -q ' gpu-events'; } 2>/dev/null || continue
        { tr '\0' '\n' <"$d/environ" | grep -qx "FAKE_NVML=$FAKE_NVML"; } 2>/dev/null && echo "$d" || true
    done
}
none_left() { watchers; [ -z "$(watchers)" ]; }
wait_for 20 "no process that listens to the driver is left" none_left
