#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tasks of a job array that Slurm takes away: one is requeued, a running and a waiting one are cancelled outside jobctl,
# one is preempted. Each of their members restarts, at most max_parallel run, and the others are not affected.
. "$TOP/tests/slurm/open.sh"
cat >sweep.yaml <<YAML
launch: slurm
slurm: {partition: low, time: 10m, extra: {mem: 100M}}
resources: {gpus: 0, cpus: 2}
grace: 10s
retry: {backoff: 1s..1s}
run: |
  trap 'exit 9' TERM
  until [ -e "$WORK/go" ]; do sleep 0.05; done
array: 0-4%2
YAML
array() { squeue -h -a -r -t all -o '%F %k' | sed -n 's/ jobctl-array:1\..*//p' | sort -u; }
in_slurm() { squeue -h -a -r -t running,completing -o %k | grep -c '^jobctl'; }
attempt_is() { read_json holds "o['job']['attempt'] == $2 and o['job']['state'] in ($3)" < <(jobctl show "1_$1" --json); }
code 0 jobctl submit sweep.yaml -q
for m in 0 1; do wait_for "member $m runs" attempt_is $m 1 "'running'"; done
job=$(array)

# One that waits is taken from the queue: it comes back, but not beside the array.
scancel "${job}_4"
wait_for "member 4 is lost and waits for a place" says "waiting for a place in Slurm: max_parallel is 2 in sweep 1" jobctl why 1_4 --json
[ "$(in_slurm)" = 2 ]

# One is requeued by an administrator, the other cancelled: their places go to the next two.
scontrol update "JobId=${job}_0" Requeue=1
scontrol requeue "${job}_0"
wait_for "member 2 runs" attempt_is 2 1 "'running'"
scancel "${job}_1"
wait_for "member 3 runs" attempt_is 3 1 "'running'"
for m in 0 1; do wait_for "member $m waits" attempt_is $m 1 "'recovering'"; done
[ "$(in_slurm)" -le 2 ]

# A job of a partition with a higher priority takes the node.
sbatch -Q -p high -n 4 -o /dev/null --wrap "sleep 1"
left() { ! attempt_is "$1" 1 "'running'"; }
for m in 2 3; do wait_for "member $m is preempted" left $m; done
touch go
code 0 jobctl wait 1 --timeout 150
for m in 0 1 2 3 4; do attempt_is $m 2 "'done'"; done
wait_for "Slurm's queue is empty" sh -c '! squeue -h -a -o %k | grep "^jobctl"'
