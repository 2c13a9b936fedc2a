#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# submits.sh BIN LOAD - how fast the daemon takes in jobs, and answers when it holds many
#
# A daemon of its own, its home below build/ (a disk, not memory: what is
# measured is durable).  Each line names what was asked for and whether it was
# reached; exit 1 if not all were.  JOBS (default 100000) finished jobs.
set -euo pipefail
bin=$(cd "$1" && pwd)
load=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
jobs=${JOBS:-100000}
top=$(cd "$(dirname "$0")/../.." && pwd)
home=$(mktemp -d "$top/build/bench.XXXXXX")
export JOBCTL_HOME=$home/state HOME=$home PATH=$bin:$PATH
trap 'env -u JOBCTL_HOME "$top/tests/e2e/leftover.sh" "$home"; rm -rf "$home"' EXIT
sock=$JOBCTL_HOME/jobctl.sock
missed=0

# verdict LINE FIELD OP LIMIT - print one measurement and compare a field of it
verdict() {
    local value word
    value=$(sed -n "s/.*\"$2\":\([0-9.]*\).*/\1/p" <<<"$3")
    word=$(awk -v v="$value" -v l="$5" -v op="$4" 'BEGIN {
        ok = op == "<" ? v + 0 < l + 0 : v + 0 >= l + 0; print ok ? "reached" : "missed"}')
    echo "$1: $2 $value (target $4 $5: $word)"
    echo "    $3"
    [ "$word" = reached ] || missed=1
}

echo "$(date -u +'%Y-%m-%d %H:%M UTC'), $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)," \
     "$(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg), $(df --output=fstype "$home" | tail -n 1)"
printf 'name: load\nrun: "true"\n' >"$home/held.yaml"
printf 'name: late\nafter: [1]\nrun: "true"\n' >"$home/late.yaml"
jobctl status >/dev/null

"$load" submit "$sock" 2000 32 "$home/held.yaml" >/dev/null   # warm up
verdict "durable submits through the API, 32 connections" per_s \
    "$("$load" submit "$sock" 10000 32 "$home/held.yaml")" '>=' 2000
verdict "jobctl submit, one after the other" p99_ms \
    "$("$load" exec 300 jobctl submit -q "$home/late.yaml")" '<' 30

left=$((jobs - 12000))
[ $left -le 0 ] || "$load" submit "$sock" $left 32 "$home/held.yaml" >/dev/null
"$load" cancel "$sock" 1 12000 32 >/dev/null
[ $left -le 0 ] || "$load" cancel "$sock" 12301 $left 32 >/dev/null
verdict "jobctl status with $jobs finished jobs" p99_ms \
    "$("$load" exec 100 jobctl status)" '<' 50
exit $missed
