#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# queue.sh BIN AGENTS - a controller with many finished and many queued jobs: commands, starts, memory, bytes
#
# DONE (default 100000) finished jobs, and QUEUED (default 20000) or FEW (default 2000, more than start in a window)
# that wait.  The times of commands are the best of five: other load only adds.  Starts: windows of SECONDS_OF_LOAD
# (default 10), one with the long queue, one with the short one, ROUNDS (default 3) times; also as processor time,
# which other load changes least.
set -euo pipefail
bin=$(cd "$1" && pwd)
agents=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
finished=${DONE:-100000} queued=${QUEUED:-20000} few=${FEW:-2000} seconds=${SECONDS_OF_LOAD:-10} rounds=${ROUNDS:-3}
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/e2e/wait.sh"
home=$(mktemp -d "$top/build/bench.XXXXXX")
export HOME=$home PATH=$bin:$PATH
trap 'env -u JOBCTL_HOME "$top/tests/e2e/leftover.sh" "$home"; rm -rf "$home"' EXIT
missed=0
target() { # WHAT VALUE LIMIT UNIT
    local word
    word=$(awk -v v="$2" -v l="$3" 'BEGIN { print v + 0 < l + 0 ? "reached" : "missed" }')
    echo "$1: $2 $4 (target < $3 $4: $word)"
    [ "$word" = reached ] || missed=1
}
now() { date +%s%N; }
best() { # COMMAND...: milliseconds, the best of five
    local least=999999 took from
    for _ in 1 2 3 4 5; do
        from=$(now)
        "$@" >/dev/null 2>&1 || true
        took=$((($(now) - from) / 1000000))
        [ $took -ge $least ] || least=$took
    done
    echo $least
}
memory() { awk '/^VmRSS/ { printf "%.1f", $2 / 1024 }' "/proc/$1/status"; }
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }
succeeded() { sqlite3 "$JOBCTL_HOME/jobs.db" "select count(*) from jobs where result = 'succeeded'"; }
more_than() { [ "$(succeeded)" -gt "$1" ]; }

echo "$(date -u +'%Y-%m-%d %H:%M UTC'), $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)," \
     "$(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg)"

# What one job tells, and its spec.
export JOBCTL_HOME=$home/one
cd "$home"
printf 'name: scale\nrun: "true"\n' >scale.yaml
jobctl submit --dry-run scale.yaml >spec.json 2>/dev/null
jobctl submit -q scale.yaml >/dev/null
jobctl wait last >/dev/null
for kind in facts plan; do
    echo "$kind $(sqlite3 "$JOBCTL_HOME/jobs.db" "select body from events where kind = '$kind'")"
done >told
stop_daemon

for queue in $queued $few; do
    mkdir -p "$home/$queue/jobs"
    chmod 700 "$home/$queue"
    "$agents" fill "$home/$queue" spec.json 0 "$finished" 0 told
    bytes=$(sqlite3 "$home/$queue/jobs.db" 'select (page_count - freelist_count) * page_size
        from pragma_page_count, pragma_freelist_count, pragma_page_size')
    rm "$home/$queue"/jobs.db*
    "$agents" fill "$home/$queue" spec.json 0 "$finished" "$queue" told one/jobs/1/env
done
target "store per finished job, as one daemon writes it" $((bytes / finished)) 2048 bytes

# Commands, while nothing starts.
export JOBCTL_HOME=$home/$queued
last=$((finished + queued))
jobctl daemon --detach
jobctl nodes drain "$(hostname)" >/dev/null
sleep 2 # what it does at its start is over
pid=$(daemon_pid)
target "resident memory of the daemon" "$(memory "$pid")" 60 MB
for command in "version" "status" "status -a" "status $((finished / 2))" "status $last" "show $((finished / 2))" \
    "why $((finished / 2))" "why $last" "logs --events $((finished / 2))" "logs $((finished / 2))" "nodes" \
    "remove --dry-run $((finished / 2))" "submit -q scale.yaml" "hold last" "hold --off last" "cancel last"; do
    # shellcheck disable=SC2086
    target "jobctl $command" "$(best jobctl $command)" 100 ms
done
target "jobctl prune --dry-run --older-than 1s" "$(best jobctl prune --dry-run --older-than 1s)" 2000 ms
target "resident memory of the daemon after that" "$(memory "$pid")" 60 MB
jobctl nodes resume "$(hostname)" >/dev/null
stop_daemon

# Starts.
for ((round = 0; round < rounds; round++)); do
    for queue in $queued $few; do
        export JOBCTL_HOME=$home/$queue
        n0=$(succeeded)
        jobctl daemon --detach
        pid=$(daemon_pid)
        wait_for 600 "jobs start and succeed" more_than "$n0"
        n0=$(succeeded) c0=$(ticks "$pid") t0=$(now)
        sleep "$seconds" # as long as is measured
        n1=$(succeeded) c1=$(ticks "$pid") t1=$(now)
        stop_daemon
        awk -v n=$((n1 - n0)) -v c=$((c1 - c0)) -v t=$(((t1 - t0) / 1000000)) -v q="$queue" -v hz="$(getconf CLK_TCK)" \
            'BEGIN { printf "%d queued: %.1f starts a second, %.2f ms of the daemon per start\n", q, 1000 * n / t,
                     1000 * c / hz / n }' | tee -a starts
    done
done
awk -v most="$queued" '$1 == most { a += $3; n++; c += $7 } $1 != most { b += $3; d += $7 }
    END { printf "with the long queue %.2f of the starts with the short one (target 0.9: %s), %.2f of the time\n",
              a / b, (a / b >= 0.9 ? "reached" : "missed"), c / d
          printf "%.1f starts a second (target 100: %s)\n", b / n, (b / n >= 100 ? "reached" : "missed") }' starts
exit $missed
