#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An unmodified PyTorch DDP script: two ranks over gloo, one of them killed during training. The job must end by itself,
# resumed from the script's own checkpoint.
set -eu
. "$TOP/tests/e2e/wait.sh"
if ! /usr/bin/python3 -c 'import torch' 2>/dev/null; then
    echo "python3-torch is not installed (deploy/bootstrap.sh --all installs it)"
    exit 77
fi

fail() {
    echo "$*" >&2
    jobctl why "$id" >&2 || true
    jobctl logs "$id" --rank 0 2>&1 | tail -n 20 >&2 || true
    exit 1
}
# until_log RANK PATTERN SECONDS - wait for a line of that rank's log; print the last match
until_log() {
    wait_for "$3" "a line like '$2' of rank $1" matches "$2" jobctl logs "$id" --rank "$1" ||
        fail "rank $1 printed no line like '$2'"
    jobctl logs "$id" --rank "$1" | grep -e "$2" | tail -n 1
}

cat >"$WORK/ddp.yaml" <<SPEC
name: ddp-toy
resources: {ranks: 2, gpus: 0}
workdir: $TOP/tests/payload
run: exec /usr/bin/python3 ddp_toy.py --steps 120 --save-every 10 --step-time 0.02
SPEC
id=$(jobctl submit -q "$WORK/ddp.yaml")

until_log 0 '^step 35 ' 60 >/dev/null
victim=$(until_log 1 '^rank 1 of 2, pid [0-9]*: started at step 0' 10 |
    sed 's/.*pid \([0-9]*\):.*/\1/')
grep -qzx "JOBCTL_JOB_ID=$id" "/proc/$victim/environ" || fail "pid $victim is no rank of job $id"
kill -KILL "$victim"

rc=0
timeout 120 jobctl wait "$id" || rc=$?
[ $rc = 0 ] || fail "jobctl wait ended with $rc, expected 0"

jobctl logs "$id" --rank 0 >"$WORK/rank0"
resumed=$(sed -n 's/^rank 0 of 2, pid [0-9]*: resumed at step \([0-9]*\)$/\1/p' "$WORK/rank0" |
    head -n 1)
[ -n "$resumed" ] || fail "rank 0 never said that it resumed"
[ "$resumed" -ge 30 ] || fail "resumed at step $resumed, expected 30 or later"
grep -qx 'finished at step 120' "$WORK/rank0" || fail "rank 0 never said that it finished"
first=$(sed -n 's/^step 1 loss \(.*\)/\1/p' "$WORK/rank0" | head -n 1)
last=$(sed -n 's/^step 120 loss \(.*\)/\1/p' "$WORK/rank0" | tail -n 1)
awk -v a="$first" -v b="$last" 'BEGIN {exit !(b < a / 2)}' || fail "loss went from $first to $last"
job_is "$id" result succeeded || fail "the job is not told to have succeeded"
jobctl why "$id" >"$WORK/why"
grep -qiE 'SIGKILL|killed' "$WORK/why" || fail "jobctl why does not tell of the killed rank"
echo "resumed at step $resumed, finished at 120"
