#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The daemon is killed around the submission of a job array: while its members are stored (the others are submitted
# separately), while the array's files are written, after that, during the submission, and after it. No array is
# submitted twice, and each member runs once.
. "$TOP/tests/slurm/open.sh"
mkdir runs
cat >sweep.yaml <<YAML
launch: slurm
slurm: {partition: main, time: 10m, extra: {mem: 100M}}
resources: {gpus: 0, cpus: 1}
retry: {max: 0}
run: echo "\$JOBCTL_ARRAY_INDEX" >>"$WORK/runs/\$NAME"
env: {NAME: none}
array: 0-5%4
YAML
submissions() { grep -c '_slurm_rpc_submit_batch_job: JobId' slurm/log/slurmctld.log; }
there() { [ -e "$1" ]; }
in_slurm() { squeue -h -a -r -t all -o "%k %F" | grep "^jobctl-array:$1\."; }
# ran NAME SWEEP: each member once, as one task of one array
ran() {
    code 0 jobctl wait "$2" --timeout 100
    [ "$(sort -n "runs/$1" | tr '\n' ' ')" = "0 1 2 3 4 5 " ] || { echo "$1:" && cat "runs/$1" && exit 1; }
    arrays=$((arrays + 1))
    [ "$1" != stored ] || { arrays=$(submissions) && return; }
    in_slurm "$2" >tasks
    [ "$(wc -l <tasks)" = 6 ] && [ "$(sort -u tasks | wc -l)" = 1 ] && [ "$(submissions)" = $arrays ] ||
        { echo "$1:" && cat tasks && exit 1; }
}
arrays=0
# one NAME PATTERN [COMMAND [COMMAND]]: a sweep whose daemon is killed when there is a file like PATTERN; COMMAND
# before and after that
one() {
    local id pid path
    jobctl daemon --detach
    pid=$(daemon_pid)
    id=$(jobctl submit sweep.yaml -q --set "env.NAME=$1")
    path=$(eval "echo $2")
    WAIT_PAUSE_S=0.002 wait_for "$1" eval "there $path"
    ${3:-true}
    kill -KILL "$pid"
    wait_for "daemon $pid ends" ended "$pid"
    ${4:-true}
    jobctl daemon --detach
    ran "$1" "$id"
}
one stored "$JOBCTL_HOME/jobs/\$((id + 1))/1"
one begun "$JOBCTL_HOME/jobs/\$id/arrays/*/0.task"
one written "$JOBCTL_HOME/jobs/\$id/arrays/*/script"
ctl() { read -r pid _ <slurm/slurmctld.pid && echo "$pid"; }
stop_ctl() { kill -STOP "$(ctl)"; }
continue_ctl() { kill -CONT "$(ctl)"; }
one stopped "$JOBCTL_HOME/jobs/\$id/arrays/*/script" stop_ctl continue_ctl
submitted() { wait_for "it is in Slurm" in_slurm "$id"; }
one submitted "$JOBCTL_HOME/jobs/\$id/arrays/*/script" submitted
