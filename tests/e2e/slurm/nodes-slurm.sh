#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# resources.nodes on a real Slurm: one allocation of four nodes, an agent on each, ranks over all, logs of all; training
# gives the bits of one rank; a killed agent is a lost node: the next allocation excludes that node and is smaller.
NODES=4
. "$TOP/tests/slurm/open.sh"
. "$TOP/tests/e2e/nodes.sh"
export XDG_CONFIG_HOME=$WORK/config
mkdir -p config/jobctl
jobctl daemon --detach
fail() { jobctl logs --events "$1"; tell_all; exit 1; }

# Two nodes, four nodes, and two that are played here: one job, bit by bit.
for name in four two here; do place $name; done
code 0 jobctl render four/nodes.yaml --set launch=slurm --set resources.nodes=4
has '#SBATCH --nodes=4' out
has '#SBATCH --no-kill' out
bash -n out
jobctl submit -q four/nodes.yaml --set launch=slurm --set resources.nodes=4 --set resources.ranks=1
jobctl submit -q two/nodes.yaml --set launch=slurm
jobctl submit -q here/nodes.yaml
for job in 1 2 3; do jobctl wait $job --timeout 100 || fail $job; done
same here two four
code 0 jobctl show 1 --json
json "[(n['name'], n['first_rank'], n['ranks']) for n in o['attempts'][0]['nodes']] == [('node%d' % (k + 1), k, 1) for k in range(4)]"

# All agents have called the controller.
[ "$(grep -c 'connected to the controller' "$JOBCTL_HOME/jobs/1/1/slurm.log")" -ge 4 ]

# Ranks of both nodes are heard; then the second node's agent dies: its lock proves it, and nobody waits for a
# limit. Slurm is asked for nodes without that one. While the controller is away the limit tells.
cat >talk.yaml <<'YAML'
launch: slurm
slurm: {partition: main}
resources: {nodes: 2, min_nodes: 1, gpus: 0, cpus: 1}
run: echo "rank $RANK of $WORLD_SIZE on $SLURMD_NODENAME"; until [ -e "$GO" ]; do sleep 0.1; done
retry: {backoff: 0.05s..0.1s}
YAML
hears() { # RANK TEXT
    wait_for "rank $1 says $2" matches "$2" jobctl logs "$job" --rank "$1" || fail "$job"
}
loses() { # LIMIT COMMAND...: a job whose second agent dies after COMMAND; until it goes on
    echo "node_lost: $1" >config/jobctl/config.yaml
    shift
    rm -f go
    job=$(jobctl submit -q talk.yaml --set "env.GO=$WORK/go")
    hears 1 'rank 1 of 2 on node'
    second=$(jobctl logs "$job" --rank 1 | sed -n 's/.* on \(node.\)$/\1/p')
    "$@"
    kill -KILL "$(agent_pid "$job" 1 node1)"
    wait_for "excluded: $second (lost before" says "excluded: $second (lost before" jobctl logs --events "$job"
    wait_for "rank 0 of attempt 2" grep 'rank 0 of' "$JOBCTL_HOME/jobs/$job/2/rank0.log" || fail "$job"
    ! grep "$second" "$JOBCTL_HOME/jobs/$job/2/nodes" || fail "$job"
    scontrol show job "$(slurm_id "$job")" | grep "ExcNodeList=$second\$" || fail "$job"
    touch go
    jobctl wait "$job" --timeout 60 || fail "$job"
}
loses 1h true
jobctl logs --events "$job" | grep "$second is gone: its agent has exited" || fail "$job"
loses 3s kill_daemon
jobctl logs --events "$job" | grep "$second sent no heartbeat for 4 s" || fail "$job"

# The first one's: nobody waits for a limit either. Slurm is asked to end the others, and the job goes on.
echo "node_lost: 1h" >config/jobctl/config.yaml
rm go
job=$(jobctl submit -q talk.yaml --set "env.GO=$WORK/go")
hears 1 'rank 1 of 2 on node'
kill -KILL "$(agent_pid "$job" 1)"
wait_for "attempt 2 of job $job" job_is "$job" attempt 2
touch go
jobctl wait "$job" --timeout 60 || fail "$job"
jobctl logs --events "$job" | grep 'the agent of its first node died' || fail "$job"
