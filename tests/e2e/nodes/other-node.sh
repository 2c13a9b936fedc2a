# SPDX-License-Identifier: Apache-2.0
# The node that is not the leader: a rank of it that dies or hangs is named with the node, and all continue; then the
# node is lost with all of its ranks, and the job continues without it. In each case the weights have the bits of one
# rank.
. "$TOP/tests/e2e/events.sh"
cd "$WORK"
JOBCTL_NODE_LOST_S=5 jobctl daemon --detach

# spec NAME NODES RANKS STEPS
spec() {
    cat >"$1.yaml" <<YAML
name: $1
resources: {nodes: $2, ranks: $3, gpus: 0}
train:
  model: {preset: tiny}
  data: {path: $TOP/templates/data/tango-icons, caption_words: 4, caption_channels: 32}
  batch: {global: 8}
  steps: $4
  optimizer: {lr: 1e-3}
  reproducible: true
  sample: {after: false}
checkpoint: {every: 20 steps, keep: 99}
YAML
}
bits() { # JOB STEP
    cat "$JOBCTL_HOME/jobs/$1/checkpoints/step-$2"/{model,optimizer}.safetensors | sha256sum
}
fail() {
    jobctl why "$1"
    jobctl logs --events "$1"
    tail -n 30 "$JOBCTL_HOME/jobs/$1"/*/agent.log "$JOBCTL_HOME/jobs/$1"/*/node*/agent.log
    exit 1
}

spec one 1 1 300
jobctl submit -q one.yaml --wait
spec four 1 4 40
jobctl submit -q four.yaml --wait
spec two 2 2 40
jobctl submit -q two.yaml --wait || fail 3
for job in 2 3; do
    [ "$(bits 1 00000040)" = "$(bits $job 00000040)" ] || { echo "job $job has other bits"; exit 1; }
done
wait_event 3 kind=nodes 'nodes~"first_rank":2'
wait_event 3 kind=plan np=4 nodes=2

# page RANK: of the second node of job 4
page() { jobctl-agent flight "$JOBCTL_HOME/jobs/4/1/node1/rank$1.flight"; }
pid_of() { page "$1" | sed -n 's/.*, pid \([0-9]*\).*/\1/p'; }

# stands GENERATION RANK: the pid of the one that has stopped itself
stands() {
    local pid
    pid=$(wait_event 4 kind=rank_started generation=$1 rank=$2 | field pid)
    wait_for "rank $2 stands still" stopped "$pid" >/dev/null
    echo "$pid"
}
spec harm 2 2 300
jobctl submit -q harm.yaml --set env.TRAIN_TEST_STOP=1:3:25,2:2:45,3:3:65
kill -KILL "$(stands 1 3)"
wait_event 4 kind=generation_ended 'text~rank 3 on node1 was killed by SIGKILL (9)'
wait_event 4 kind=hang 'text~rank 2 on node1 hangs'
wait_event 4 kind=incident
grep -q '^rank 2 on node1: ' "$JOBCTL_HOME/jobs/4/1/incident-2.txt"
last=$(stands 3 3)
agent=$(agent_pid 4 1 node1)
kill -KILL "$agent" "$(pid_of 2)" "$last"
wait_event 4 kind=node_lost name=node1 'text~node1 is gone: the agent of attempt 1 died' # no limit was waited for
wait_event 4 kind=attempt_ended cause=node_lost
jobctl wait 4 || fail 4
jobctl logs --events 4
jobctl why 4
[ "$(bits 1 00000300)" = "$(bits 4 00000300)" ]
