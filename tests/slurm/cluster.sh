#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# cluster.sh - a real Slurm on this machine, private to one directory
#
#   tests/slurm/cluster.sh DIR start [N]     munged, slurmctld, N slurmd: node1 to nodeN (default 2)
#   tests/slurm/cluster.sh DIR stop          end them and all jobs, forget the cluster's state
#   tests/slurm/cluster.sh DIR killctl       kill -9 slurmctld; jobs go on      | startctl
#   tests/slurm/cluster.sh DIR killd N       kill -9 slurmd N; its jobs go on   | startd N
#
# SLURM_CONF is DIR/slurm.conf.  All nodes are this machine (Debian's build has MULTIPLE_SLURMD),
# daemons and jobs run as the caller, nothing outside DIR is touched and no systemd is needed.
# `start` exits 77 with a sentence where the packages are missing.  Each node claims 4 processors
# and, where device nodes can be made, two GPUs that are /dev/null.
set -u
die() { echo "cluster.sh: $*" >&2; exit 1; }
[ $# -ge 2 ] || { sed -n '3,14s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$1" && dir=$(cd "$1" && pwd) || exit 1
cmd=$2
PATH=$PATH:/usr/sbin:/sbin
export SLURM_CONF=$dir/slurm.conf

TOP=$(cd "$(dirname "$0")/../.." && pwd)
. "$TOP/tests/e2e/wait.sh"

# --- processes that we started: a pid counts only with its start time ---------------------------
start_of() { local s; s=$(cat "/proc/$1/stat" 2>/dev/null) || return 1; set -- ${s##*) }
             case $1 in Z | X) return 1 ;; esac; echo "${20}"; }
alive() { # NAME: of the daemons here
    local pid start
    read -r pid start 2>/dev/null <"$dir/$1.pid" || return 1
    [ "$(start_of "$pid")" = "$start" ]
}
spawn() {
    local name=$1 pid
    shift
    setsid "$@" </dev/null >"$dir/log/$name.out" 2>&1 &
    pid=$!
    echo "$pid $(start_of $pid)" >"$dir/$name.pid"
}
over() { ! alive "$1"; }
end() {
    local pid
    if alive "$2"; then
        read -r pid _ <"$dir/$2.pid"
        kill "-$1" "$pid" 2>/dev/null
        wait_for 5 "$2 ends" over "$2" 2>/dev/null || kill -KILL "$pid"
    fi
    rm -f "$dir/$2.pid"
}
# Steps of a node that is gone outlive its slurmd; they carry our configuration's path.
tree() { local c; for c in $(cat /proc/"$1"/task/*/children 2>/dev/null); do tree "$c"; done; echo "$1"; }
end_steps() {
    local p q
    for p in /proc/[0-9]*; do
        p=${p#/proc/}
        [ "$(cat "/proc/$p/comm" 2>/dev/null)" = slurmstepd ] || continue
        grep -qzxF "SLURM_CONF=$SLURM_CONF" "/proc/$p/environ" 2>/dev/null || continue
        for q in $(tree "$p"); do kill -KILL "$q" 2>/dev/null; done
    done
}

# --- configuration ------------------------------------------------------------------------------
free_ports() {
    python3 - "$1" <<'PY'
import socket, sys
held = [socket.socket() for _ in range(int(sys.argv[1]))]
for s in held:
    s.bind(("127.0.0.1", 0))
print(*[s.getsockname()[1] for s in held])
PY
}
configure() {
    local n=$1 me ports gres=
    me=$(id -un)
    mkdir -p "$dir"/{state,spool,log,dev,munge}
    head -c 128 /dev/urandom >"$dir/munge/key"
    chmod 600 "$dir/munge/key"
    chmod 755 "$dir" "$dir/munge"
    read -ra ports <<<"$(free_ports $((n + 1)))"
    if mknod "$dir/dev/gpu0" c 1 3 2>/dev/null && mknod "$dir/dev/gpu1" c 1 3; then
        gres="Gres=gpu:2"
        echo "Name=gpu File=$dir/dev/gpu[0-1]" >"$dir/gres.conf"
    fi
    {
        cat <<CONF
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmUser=$me
SlurmdUser=$me
AuthType=auth/munge
AuthInfo=socket=$dir/munge/sock,cred_expire=5
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/slurmctld.own-pid
SlurmdPidFile=$dir/slurmd.%n.own-pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.%n.log
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
# Nodes may claim more than the machine has.
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
${gres:+GresTypes=gpu}
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
SlurmdTimeout=10
KillWait=2
MinJobAge=${SLURM_MIN_JOB_AGE:-300}
CONF
        for k in $(seq "$n"); do
            echo "NodeName=node$k NodeHostname=localhost NodeAddr=127.0.0.1 Port=${ports[k]}" \
                 "CPUs=4 RealMemory=8000 $gres"
            mkdir -p "$dir/spool/node$k"
        done
        echo "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=10 GraceTime=10"
        echo "PartitionName=low Nodes=ALL MaxTime=INFINITE PriorityTier=5 PreemptMode=CANCEL GraceTime=10"
        echo "PartitionName=high Nodes=ALL MaxTime=INFINITE PriorityTier=100 PreemptMode=OFF"
    } >"$dir/slurm.conf"
}

# --- commands -----------------------------------------------------------------------------------
munged_up() {
    spawn munged munged --foreground --socket="$dir/munge/sock" --key-file="$dir/munge/key" \
        --pid-file="$dir/munge/pid" --seed-file="$dir/munge/seed" --log-file="$dir/munge/log" \
        --num-threads=2 --force     # it would rather have directories that everybody may enter
    wait_for 20 "munged listens" test -S "$dir/munge/sock" ||
        die "munged did not start: $(tail -n 3 "$dir/log/munged.out")"
}
ctl_up() { alive slurmctld || spawn slurmctld slurmctld -D -f "$SLURM_CONF"; }
slurmd_up() { alive "slurmd$1" || spawn "slurmd$1" slurmd -D -N "node$1" -f "$SLURM_CONF"; }
nodes_ready() { [ "$(sinfo -h -N -p main -t idle,mix,alloc -o %N 2>/dev/null | wc -l)" = "$1" ]; }

case $cmd in
start)
    n=${3:-2}
    for program in munged slurmctld slurmd sinfo; do
        command -v $program >/dev/null ||
            { echo "no $program on this machine: deploy/bootstrap.sh --all installs it"; exit 77; }
    done
    configure "$n"
    echo "$n" >"$dir/count"
    munged_up
    ctl_up
    for k in $(seq "$n"); do slurmd_up "$k"; done
    wait_for "all nodes of Slurm are up" nodes_ready "$n" && exit 0
    sinfo -N -o "%N %t %E" >&2
    tail -n 5 "$dir/log/slurmctld.log" "$dir"/log/slurmd.*.log >&2
    die "not all nodes are up" ;;
stop)
    end TERM slurmctld
    for k in $(seq "$(cat "$dir/count" 2>/dev/null || echo 0)"); do end TERM "slurmd$k"; done
    end_steps
    end TERM munged
    rm -rf "$dir/state" "$dir/spool" "$dir/count" ;;
killctl) end KILL slurmctld ;;
startctl) ctl_up ;;
killd) end KILL "slurmd$3" ;;
startd) slurmd_up "$3" ;;
*) die "no command '$cmd'" ;;
esac
