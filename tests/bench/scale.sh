#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scale.sh BIN AGENTS - a controller with many agents: its start, its processor time, its memory
#
# RUNNING (default 1000) simulated agents over real sockets, one heartbeat each per second, with
# DONE (default 100000) finished jobs; measured for SECONDS (default 20). Exit 1 if a target is missed.
set -euo pipefail
bin=$(cd "$1" && pwd)
agents=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
running=${RUNNING:-1000} done=${DONE:-100000} seconds=${SECONDS_OF_LOAD:-20}
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/e2e/wait.sh"
home=$(mktemp -d "$top/build/bench.XXXXXX")
export JOBCTL_HOME=$home/state HOME=$home PATH=$bin:$PATH
serving=
trap '[ -z "$serving" ] || kill "$serving" 2>/dev/null; env -u JOBCTL_HOME "$top/tests/e2e/leftover.sh" "$home"; rm -rf "$home"' EXIT
ulimit -n 16384
missed=0
target() { # WHAT VALUE LIMIT UNIT
    word=$(awk -v v="$2" -v l="$3" 'BEGIN { print v + 0 < l + 0 ? "reached" : "missed" }')
    echo "$1: $2 $4 (target < $3 $4: $word)"
    [ "$word" = reached ] || missed=1
}
now() { date +%s.%N; }
minus() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f", a - b }'; }

echo "$(date -u +'%Y-%m-%d %H:%M UTC'), $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)," \
     "$(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg)"
mkdir -p "$JOBCTL_HOME/jobs"
chmod 700 "$JOBCTL_HOME"
printf 'name: scale\nrun: "true"\n' >"$home/scale.yaml"
(cd "$home" && JOBCTL_HOME=$home/other jobctl submit --dry-run scale.yaml >spec.json 2>/dev/null)
curl -s -X POST --unix-socket "$home/other/jobctl.sock" http://jobctl/v1/shutdown -d '{}' >/dev/null
"$agents" fill "$JOBCTL_HOME" "$home/spec.json" "$running" "$done" 2>"$home/fill.err" || { cat "$home/fill.err"; exit 1; }

"$agents" serve "$JOBCTL_HOME" $((done + 1)) "$running" $((seconds + 15)) >"$home/served" &
serving=$!
wait_for "the agents are ready" grep ready "$home/served"

start=$(now)
jobctl daemon --detach
up=$(now)
jobctl status -n 5 >/dev/null
answered=$(now)
target "start with $running running jobs and $done finished ones, until it answers" \
    "$(minus "$answered" "$start")" 2 s
echo "    (the daemon says that it is ready after $(minus "$up" "$start") s)"
pid=$(daemon_pid)
ticks() { awk '{ print $14 + $15 }' "/proc/$pid/stat"; }
sleep 5 # what it does at its start is over
t0=$(now) c0=$(ticks)
sleep "$seconds" # as long as is measured
t1=$(now) c1=$(ticks)
target "processor time of the daemon, $running heartbeats per second" \
    "$(awk -v c=$((c1 - c0)) -v t="$(minus "$t1" "$t0")" -v hz="$(getconf CLK_TCK)" \
        'BEGIN { printf "%.1f", 100 * c / hz / t }')" 10 "% of a core"
target "resident memory of the daemon" \
    "$(awk '/^VmRSS/ { printf "%.1f", $2 / 1024 }' "/proc/$pid/status")" 100 MB
curl -s -X POST --unix-socket "$JOBCTL_HOME/jobctl.sock" http://jobctl/v1/shutdown -d '{}' >/dev/null
wait "$serving" || true
serving=
sed -n 2p "$home/served"
grep -q "\"hellos\":$running,.*\"stops\":0,\"missed\":0" "$home/served" || { echo "not all agents were served"; missed=1; }
exit $missed
