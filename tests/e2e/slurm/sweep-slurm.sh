#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A sweep with launch: slurm on a real Slurm: each member is a task of an array, at most max_parallel run at once, even
# if the daemon is killed; a cancel leaves nothing in Slurm's queue.
. "$TOP/tests/slurm/open.sh"
cat >sweep.yaml <<YAML
launch: slurm
slurm: {partition: main, time: 10m, extra: {mem: 100M}}
resources: {gpus: 0, cpus: 1}
grace: 10s
run: |
  echo "\$A" >>"$WORK/marks"
  while [ ! -e "$WORK/go.\$A" ]; do sleep 0.1; done
sweep: {env.A: 1-4}
max_parallel: 1
YAML
in_slurm() { squeue -h -a -r -t running -o %k | grep -c '^jobctl-array:1'; }
code 0 jobctl submit sweep.yaml -q
wait_for "the first member runs" test -s marks
[ "$(in_slurm)" = 1 ]
kill_daemon
touch go.1
wait_for "the second member runs" job_is 1_1 state running
wait_for "its output" says 2 cat marks
[ "$(in_slurm)" = 1 ]
touch go.2
wait_for "the third member runs" says 3 cat marks
code 0 jobctl cancel 1 --now
code 3 jobctl wait 1
code 3 jobctl wait 1_2 --timeout 120
code 3 jobctl wait 1_3 --timeout 120
[ "$(tr '\n' ' ' <marks)" = "1 2 3 " ]
code 0 jobctl status 1 --json
json 'o["jobs"][0]["members"] == {"count": 4, "running": 0, "succeeded": 2, "failed": 0, "cancelled": 2, "not_started": 0}'
wait_for "Slurm's queue is empty" sh -c '! squeue -h -a -o %k | grep "^jobctl"'
