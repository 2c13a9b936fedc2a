# SPDX-License-Identifier: Apache-2.0
# ranks.sh - the ranks of a job, started without an agent: . "$TOP/tests/e2e/ranks.sh"

# run_ranks N JOB: N ranks of JOB.json, to the end; their output is appended to JOB.log
run_ranks() {
    local r p pids=
    for r in $(seq 0 $(($1 - 1))); do
        RANK=$r WORLD_SIZE=$1 JOBCTL_RUN_DIR="$WORK" OMP_NUM_THREADS=1 \
            jobctl-train train --spec "$2.json" >>"$2.log" 2>&1 &
        pids="$pids $!"
    done
    for p in $pids; do wait "$p" || { cat "$2.log"; exit 1; }; done
}

# rank R N JOB: rank R of N of JOB.json; its output is appended to JOB.R.log
rank() {
    RANK=$1 WORLD_SIZE=$2 JOBCTL_RUN_DIR="$WORK" OMP_NUM_THREADS=1 jobctl-train train --spec "$3.json" >>"$3.$1.log" 2>&1
}

# kill_until_it_ends JOB MS: rank 0 of 1 of JOB, killed after MS milliseconds, then after a fifth more, until it ends by
# itself, which is not the first or second time
kill_until_it_ends() {
    local ms=$2 kills=0 code
    while
        code=0
        RANK=0 WORLD_SIZE=1 JOBCTL_RUN_DIR="$WORK" OMP_NUM_THREADS=1 \
            timeout -s KILL "$(printf '%d.%03d' $((ms / 1000)) $((ms % 1000)))" \
            jobctl-train train --spec "$1.json" >>"$1.0.log" 2>&1 || code=$?
        [ $code = 137 ]
    do
        kills=$((kills + 1)) ms=$((ms * 6 / 5 + RANDOM % 10))
    done 2>/dev/null # "Killed"
    echo "killed $kills times, at last after $ms ms"
    [ $code = 0 ] && [ $kills -ge 2 ] || { cat "$1.0.log"; exit 1; }
}
