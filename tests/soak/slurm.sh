#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Events that take Slurm a long time: a limit that Slurm itself enforces, a submit that slurmctld acknowledged
# and lost, a node that is given up while its processes live on, a job that Slurm requeues, and others that
# take its nodes.
NODES=2
WAIT_S=150
. "$TOP/tests/slurm/open.sh"
cat >train.yaml <<'YAML'
launch: slurm
resources: {gpus: 0, cpus: 1}
train: {model: {preset: tiny}, data: {encoders: synthetic, resolution: 32}, batch: {global: 4}, steps: 100000000}
checkpoint: {every: 500 steps}
retry: {backoff: 0.05s..0.1s}
YAML

# An acknowledged submit that slurmctld forgets, as it may do within 5 s: placed again.
printf 'launch: slurm\nresources: {gpus: 0}\nrun: exec sleep 1000\nretry: {backoff: 0.05s..0.1s}\n' >sleep.yaml
sleep 6                                 # the nodes are in the saved state
cp -a slurm/state slurm/state.before
id=$(jobctl submit sleep.yaml -q --set slurm.extra.nodelist=node1 --hold)
cluster killd 1                         # it cannot start before it is forgotten
jobctl hold --off "$id"
wait_for 'is pending' says 'is pending' jobctl why "$id"
cluster killctl
rm -rf slurm/state
mv slurm/state.before slurm/state
cluster startctl
cluster startd 1
wait_for "attempt 2 of job $id" job_is "$id" attempt 2
wait_for "job $id runs" job_is "$id" state running
code 0 jobctl logs --events "$id"
has 'Slurm no longer knows attempt 1' out
[ "$(squeue -h | wc -l)" = 1 ]
dropped "$id"

# The limit: Slurm's own signal, then a new allocation.
id=$(jobctl submit train.yaml -q --set slurm.time=1m --set slurm.grace=50s)
wait_for "attempt 2 of job $id" job_is "$id" attempt 2
wait_for "job $id runs" job_is "$id" state running
code 0 jobctl logs --events "$id"
has 'the machine shuts down soon' out
dropped "$id"

# A node that Slurm gives up; its processes do not know.
id=$(jobctl submit train.yaml -q)
wait_for "a checkpoint of job $id" job_has "$id" checkpoint
old=$(agent_pid "$id" 1)
node=$(squeue -h -o %N | sed 's/node//')
cluster killd "$node"
wait_for "attempt 2 of job $id" job_is "$id" attempt 2
! alive "$old" || exit 1
code 0 jobctl logs --events "$id"
has 'one of its nodes failed (NODE_FAIL)' out
wait_for "job $id runs" job_is "$id" state running
dropped "$id"
cluster startd "$node"
wait_for idle says idle sinfo -h -n "node$node" -o %t

# Slurm runs nothing twice by itself.  Made to, it ends its job, and a new attempt goes on from what was saved.
id=$(jobctl submit train.yaml -q)
wait_for "a checkpoint of job $id" job_has "$id" checkpoint
number=$(slurm_id "$id")
! scontrol requeue "$number" || exit 1
trains "$id"
scontrol update "JobId=$number" Requeue=1
scontrol requeue "$number"
wait_for "attempt 2 of job $id" job_is "$id" attempt 2
[ "$(resumed "$id")" -gt 0 ]
code 0 jobctl logs --events "$id"
has 'Slurm ended the allocation: the job was preempted, requeued or cancelled there' out
one_in_queue() { squeue -h -a; [ "$(squeue -h -a | wc -l)" = 1 ]; }
wait_for "one job is in Slurm's queue" one_in_queue
[ "$(squeue -h -a -o %i)" != "$number" ]

# The same while no controller looks; Slurm would start it again after two minutes.
number=$(slurm_id "$id")
kill_daemon
scontrol update "JobId=$number" Requeue=1
scontrol requeue "$number"
wait_for ' PD' says ' PD' squeue -h -a -o '%i %t'
WAIT_S=60 wait_for "attempt 3 of job $id" job_is "$id" attempt 3
grep "Slurm job $number.*requeued" "$JOBCTL_HOME/daemon.log"
wait_for "job $id runs" job_is "$id" state running
[ "$(squeue -h -a -o %i | grep -c "^$number\$")" = 0 ]
dropped "$id"

# Jobs of a higher partition take the nodes, with some seconds of grace: a checkpoint, and on when they are free.
for partition in main low; do           # PreemptMode REQUEUE and CANCEL
    id=$(jobctl submit train.yaml -q --set "slurm.partition=$partition")
    wait_for "a checkpoint of job $id" job_has "$id" checkpoint
    sbatch -Q --partition=high --nodes=2 --exclusive --job-name=higher --output=high.out --wrap 'sleep 1000'
    wait_for ' is pending: ' says ' is pending: ' jobctl why "$id" --json
    code 0 jobctl logs --events "$id"
    has 'Slurm ended the allocation: the job was preempted, requeued or cancelled there' out
    scancel --name=higher
    trains "$id"
    [ "$(resumed "$id")" -gt 0 ]
    code 0 jobctl show "$id" --json
    json "o['job']['attempt'] == 2"
    dropped "$id"
done

# slurmctld is away for longer than anybody waits for an answer: the ranks train on, and are heard.
id=$(jobctl submit train.yaml -q)
wait_for "a checkpoint of job $id" job_has "$id" checkpoint
cluster killctl
sleep 30                                # it is the length that is tested
trains "$id"
cluster startctl
trains "$id"
code 0 jobctl show "$id" --json
json "o['job']['attempt'] == 1 and o['job']['generation'] == 1"
dropped "$id"
