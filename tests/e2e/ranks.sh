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
