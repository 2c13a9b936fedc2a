#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The daemon is killed after the n-th commit in the life of a sweep, for every third n (SWEEP_KILL_STEP=1: for each):
# each member runs once, none is lost, and the counts are right. The same during its cancel: no member keeps running.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
cat >life.yaml <<'YAML'
resources: {gpus: 0, cpus: 1}
run: echo "$JOBCTL_ARRAY_INDEX" >>"$MARKS"
array: 0-1
max_parallel: 1
YAML
cat >long.yaml <<'YAML'
resources: {gpus: 0, cpus: 1}
run: echo "$JOBCTL_ARRAY_INDEX" >>"$MARKS"; exec sleep 1000
grace: 0s
array: 0-2
max_parallel: 1
YAML
# dying N: a daemon that dies at its N-th commit
dying() {
    [ ! -S "$JOBCTL_HOME/jobctl.sock" ] || stop_daemon
    JOBCTL_TEST_DIE_AT_EVENT=$1 jobctl daemon --detach
    pid=$(daemon_answers)
}
# over JOB: the daemon is dead, or that job done
over() {
    ended "$pid" || curl -s --max-time 10 --unix-socket "$JOBCTL_HOME/jobctl.sock" \
        "http://jobctl/v1/jobs/$1/wait?timeout_s=0" | grep '"done":true'
}

step=${SWEEP_KILL_STEP:-3} n=$((1 - step)) lived=
while [ ! "$lived" ]; do
    n=$((n + step))
    dying $n
    jobctl submit life.yaml --set name="life-$n" --set "env.MARKS=$WORK/marks.$n" -q || [ $n = 1 ]
    if [ $n = 1 ]; then
        wait_for "the end of daemon $pid" ended "$pid"      # at the submit
    else
        wait_for "daemon $pid is dead or the sweep done" over "life-$n"
    fi
    ! alive "$pid" || lived=1
    code 0 jobctl wait "life-$n"
    has succeeded out
    [ "$(tr '\n' ' ' <"marks.$n")" = "0 1 " ] || { echo "at $n: $(cat "marks.$n")"; exit 1; }
    code 0 jobctl status "life-$n" --json
    json '[j["index"] for j in o["jobs"][1:]] == [0, 1] and o["jobs"][0]["members"]["succeeded"] == 2'
done
[ $n -gt 10 ] || { echo "the daemon lived through $n commits"; exit 1; }

# Cancelled: killed when only the sweep is, and when its member is being stopped.
for n in 1 2; do
    stop_daemon
    code 0 jobctl submit long.yaml --set name="long-$n" --set "env.MARKS=$WORK/long.$n" -q
    wait_for "a member runs" test -s "long.$n"
    wait_for "its start is known" job_is "long-${n}[0]" state running
    dying $n
    jobctl cancel "long-$n" --now -q 2>/dev/null || true
    wait_for "daemon $pid is dead or the member done" over "long-$n%5B0%5D"
    [ "$(job_field "long-$n" result)" = cancelled ] || code 0 jobctl cancel "long-$n" --now
    code 3 jobctl wait "long-$n"
    code 3 jobctl wait "long-${n}[0]"
    [ "$(cat "long.$n")" = 0 ]
    code 0 jobctl status "long-$n" --json
    json 'o["jobs"][0]["members"] == {"count": 3, "running": 0, "succeeded": 0, "failed": 0, "cancelled": 1, "not_started": 2}'
done
