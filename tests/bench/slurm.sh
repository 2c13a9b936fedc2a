#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# slurm.sh BIN [JOBS] - how fast jobs get into Slurm's queue: by sbatch, one process each, and through jobctl
set -eu
BIN=$(cd "$1" && pwd)
n=${2:-200}
TOP=$(cd "$(dirname "$0")/../.." && pwd)
WORK=$(mktemp -d "${TMPDIR:-/tmp}/jobctl-bench.XXXXXX")
export BIN TOP WORK HOME=$WORK JOBCTL_HOME=$WORK/state PATH=$BIN:$PATH
. "$TOP/tests/slurm/open.sh"
trap 'jobctl daemon stop >/dev/null 2>&1 || kill "$(daemon_pid)"; cluster stop; rm -rf "$WORK"' EXIT
now() { date +%s.%N; }
rate() { awk -v n="$n" -v a="$1" -v b="$2" 'BEGIN { printf "%.1f s, %.0f a second", b - a, n / (b - a) }'; }
queued() { squeue -h -a -o %k | grep -c "^$1" || true; }

scontrol update PartitionName=main State=DOWN       # all of them wait there
printf '#!/bin/bash\n#SBATCH --comment=plain\n#SBATCH --output=/dev/null\nsleep 1000\n' >plain.sbatch
a=$(now)
for _ in $(seq "$n"); do sbatch -Q plain.sbatch; done
b=$(now)
[ "$(queued plain)" = "$n" ]
echo "sbatch, one process each: $n jobs in $(rate "$a" "$b")"
scancel --state=PENDING

printf 'launch: slurm\nresources: {gpus: 0}\nrun: exec sleep 1000\n' >job.yaml
for _ in $(seq "$n"); do jobctl submit -q job.yaml --hold; done >ids
a=$(now)
jobctl hold --off "1-$n" >/dev/null
all_queued() { [ "$(queued jobctl:)" = "$n" ]; }
wait_for 600 "all jobs are in the queue" all_queued
b=$(now)
echo "jobctl, released at once: $n jobs in $(rate "$a" "$b")"
a=$(now)
jobctl cancel "1-$n" >/dev/null
for id in $(cat ids); do jobctl wait "$id" >/dev/null 2>&1 || true; done
b=$(now)
echo "and cancelled: $n jobs in $(rate "$a" "$b")"
echo "load $(cut -d' ' -f1 /proc/loadavg), $(nproc) processors"
