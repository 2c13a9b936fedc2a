#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A sweep with launch: slurm on a real Slurm is one job array, of which Slurm runs max_parallel at once. Members are
# cancelled, fail and are retried separately; slurmctld is killed in between; a sweep of many members makes few arrays.
. "$TOP/tests/slurm/open.sh"
mkdir runs
cat >sweep.yaml <<YAML
name: lr
launch: slurm
slurm: {partition: main, time: 10m, extra: {mem: 100M}}
resources: {gpus: 0, cpus: 1}
grace: 10s
retry: {max: 0}
env: {W: $WORK}
run: |
  test -z "\$SLURM_ARRAY_TASK_ID" || exit 4
  trap 'rmdir "\$W/runs/\$A"' EXIT
  trap 'exit 9' TERM
  mkdir "\$W/runs/\$A"
  ls "\$W/runs" | wc -l >>"\$W/parallel"
  [ "\$A" != 7 ] || [ -e "\$W/pass" ] || exit 3
  until [ -e "\$W/go" ]; do sleep 0.05; done
  echo "\$A" >>"\$W/marks"
sweep: {env.A: 1-12}
max_parallel: 3
YAML
submissions() { grep -c '_slurm_rpc_submit_batch_job: JobId' slurm/log/slurmctld.log; }
member_is() { read_json holds "o['job']['state'] == '$2'" < <(jobctl show "$1" --json); }

# One submission for all twelve; three of them run, and the others say what they wait for.
code 0 jobctl submit sweep.yaml -q
three_run() { [ "$(squeue -h -a -t running -o %i | wc -l)" = 3 ]; }
wait_for "three run in Slurm" three_run
wait_for "the twelfth waits for others of its array" says 'JobArrayTaskLimit' jobctl why 1_11
jobctl why 1_11 | tr -s ' \n' ' ' >out
says "Slurm job $(squeue -h -a -t pending -o %F | head -n 1)_11 is pending" cat out
[ "$(submissions)" = 1 ]
code 0 jobctl status
has "12 in Slurm" out
comment=$(squeue -h -a -r -o %k | sort -u)
case $comment in jobctl-array:1.*) ;; *) echo "comment: $comment"; exit 1 ;; esac

# One that runs and one that waits are cancelled, and only they.
wait_for "member 1_1 runs" member_is 1_1 running
code 0 jobctl cancel 1_1
code 3 jobctl wait 1_1 --timeout 60
code 0 jobctl cancel 1_10
code 3 jobctl wait 1_10 --timeout 60
wait_for "three run in Slurm" three_run

# slurmctld away and back: nothing is submitted again. Its state is saved every 5 s.
wait_for "the state of Slurm is saved" test slurm/state/job_state -nt out
cluster killctl
cluster startctl
wait_for "Slurm answers" squeue -h
touch go
code 1 jobctl wait 1 --timeout 120
code 0 jobctl status 1 --json
json 'o["jobs"][0]["members"] == {"count": 12, "running": 0, "succeeded": 9, "failed": 1, "cancelled": 2, "not_started": 0}'
json '[j["index"] for j in o["jobs"][1:] if j["result"] == "failed"] == [6]'
[ "$(sort -n parallel | tail -n 1)" = 3 ]
[ "$(sort -n marks | tr '\n' ' ')" = "1 3 4 5 6 8 9 10 12 " ]
[ "$(submissions)" = 1 ]

# The failed one and the cancelled ones again: a second array, of three.
touch pass
code 0 jobctl retry 1 -q
code 0 jobctl wait "$(cat out)" --timeout 60
[ "$(submissions)" = 2 ]
[ "$(sort -n marks | tr '\n' ' ')" = "1 2 3 4 5 6 7 8 9 10 11 12 " ]
wait_for "Slurm's queue is empty" sh -c '! squeue -h -a -o %k | grep "^jobctl"'

# The array is refused, here because Slurm permits no array: each becomes a job of its own.
echo "MaxArraySize=0" >>slurm/slurm.conf
scontrol reconfigure
cluster killctl
cluster startctl
wait_for "Slurm permits no arrays" says 'MaxArraySize            = 0' scontrol show config
rm marks
code 0 jobctl submit sweep.yaml -q --set array=0-2
code 0 jobctl wait "$(cat out)" --timeout 60
[ "$(sort -n marks | tr '\n' ' ')" = "1 2 3 " ]
says 'its members become separate jobs' cat "$JOBCTL_HOME/daemon.log" >/dev/null
