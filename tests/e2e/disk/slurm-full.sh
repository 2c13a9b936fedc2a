# SPDX-License-Identifier: Apache-2.0
# A Slurm node without space for the agent's files: the job reports the node, waits by the rule for full disks, and runs
# once there is space, without counting a failure.
. "$TOP/tests/slurm/open.sh"
${CC:-cc} -D_GNU_SOURCE -shared -fPIC -o disk.so "$TOP/tests/fake/disk.c" -ldl
# Slurm gives its jobs the daemon's environment; of all programs only an agent makes a spool.
LD_PRELOAD=$WORK/disk.so FAKE_DISK_FULL=/spool:$WORK/full jobctl daemon --detach
cat >job.yaml <<'YAML'
launch: slurm
slurm: {partition: main, time: 10m, extra: {mem: 100M}}
resources: {gpus: 0, cpus: 1}
run: "true"
retry: {max: 1, backoff: 0.05s..0.1s}
YAML
touch full
jobctl submit -q job.yaml
tells() { jobctl why 1 | tr -s '\n ' '  ' | grep -F "$1"; }
wait_for "the job tells of the node" tells "no room on node1: the agent cannot make its files in $JOBCTL_HOME/jobs/1/"
tried() { [ "$(events_of 1 kind=start_failed cause=disk_full | wc -l)" -ge 3 ]; }
wait_for "it is tried more often than retry.max" tried
rm full
code 0 jobctl wait 1
job_is 1 result succeeded
