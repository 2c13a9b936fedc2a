#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What takes Slurm its time: a limit that Slurm itself enforces, a submit that slurmctld acknowledged
# and lost, and a node that is given up while its processes live on.
NODES=2
PATIENCE_S=150
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
jobctl release "$id"
until_says 'is pending' jobctl why "$id"
cluster killctl
rm -rf slurm/state
mv slurm/state.before slurm/state
cluster startctl
cluster startd 1
until_says '"attempt":2' jobctl show "$id" --json
until_says '"state":"running"' jobctl show "$id" --json
code 0 jobctl events "$id"
has 'Slurm knows nothing of attempt 1' out
[ "$(squeue -h | wc -l)" = 1 ]
dropped "$id"

# The limit: Slurm's own signal, then a new allocation.
id=$(jobctl submit train.yaml -q --set slurm.time=1m --set slurm.grace=50s)
until_says '"attempt":2' jobctl show "$id" --json
until_says '"state":"running"' jobctl show "$id" --json
code 0 jobctl events "$id"
has 'the machine will soon be taken away' out
dropped "$id"

# A node that Slurm gives up; its processes do not know.
id=$(jobctl submit train.yaml -q)
until_says '"checkpoint":{"step":' jobctl show "$id" --json
old=$(agent_pid "$id" 1)
node=$(squeue -h -o %N | sed 's/node//')
cluster killd "$node"
until_says '"attempt":2' jobctl show "$id" --json
! alive "$old"
code 0 jobctl events "$id"
has 'a node of it failed (NODE_FAIL)' out
until_says '"state":"running"' jobctl show "$id" --json
dropped "$id"
