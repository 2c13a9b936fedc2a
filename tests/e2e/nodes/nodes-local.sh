# SPDX-License-Identifier: Apache-2.0
# resources.nodes on this machine, an agent for each node: ranks are numbered over all nodes, logs of each are found,
# training gives the bits of one rank; a lost node is named and the job continues without it, while the controller is
# killed and restarted; a run job uses the node again.
. "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/nodes.sh"
cd "$WORK"
JOBCTL_NODE_LOST_S=2 jobctl daemon --detach
cat >ranks.yaml <<'YAML'
resources: {nodes: 2, ranks: 2, gpus: 0, cpus: 1}
setup: echo "prepared node"
run: |
  echo "rank $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE on node $NODE_RANK"
retry: {max: 0}
YAML
code 0 jobctl submit ranks.yaml --dry-run
has 'nodes: 2; planned for one of them' err
jobctl submit -q ranks.yaml --wait || { jobctl logs --events 1; cat "$JOBCTL_HOME"/jobs/1/1/{,node1/}*.log; exit 1; }
for r in 0 1 2 3; do
    code 0 jobctl logs 1 --rank $r
    has "rank $r of 4, $((r % 2)) of 2 on node $((r / 2))" out
done
code 0 jobctl show 1 --json
json "[(n['name'], n['first_rank'], n['ranks'], n['state']) for n in o['attempts'][0]['nodes']] == [('node0', 0, 2, 'joined'), ('node1', 2, 2, 'joined')]"
code 0 jobctl show 1
has 'node1, ranks 2 to 3: joined' out
jobctl logs --events 1 | grep '2 nodes have joined: node0 with ranks 0 to 1, node1 with ranks 2 to 3'

# A report has the logs of all nodes, and not the key by which they know each other.
code 0 jobctl show 1 --report report.tar.gz
[ "$(ls *.tar.gz)" = report.tar.gz ]
tar xzf report.tar.gz
for r in 0 1; do grep -q "rank $r of 4" job-1/attempt-1/rank$r.log; done
for r in 2 3; do grep -q "rank $r of 4" job-1/attempt-1/node1/rank$r.log; done
! grep -rEl '\"key\":' "$JOBCTL_HOME" job-1 || exit 1

# The same training on one rank, and on four of two nodes.
for name in one two lost; do place $name; done
jobctl submit -q one/nodes.yaml --set resources.nodes=1 --set resources.ranks=1
jobctl submit -q two/nodes.yaml
jobctl wait 2 3 || { jobctl logs --events 3; exit 1; }
same one two

# A node is lost while the controller is away; the job goes on with the one that is left.
job=$(jobctl submit -q lost/nodes.yaml --set name=lost --set train.steps=100000000)
wait_event "$job" kind=checkpoint >/dev/null
agent=$(agent_pid "$job" 1 node1)
daemon=$(daemon_pid)
kill -KILL "$daemon" "$agent"
wait_event "$job" kind=placed 'text~; excluded: node1' | field text
wait_for "job $job trains on" resumes "$job"
jobctl logs --events "$job" | grep 'node_lost .*node1'
code 0 jobctl show "$job" --json
json "o['attempts'][0]['cause'] == 'node_lost' and [n['state'] for n in o['attempts'][0]['nodes']] == ['joined', 'lost']"
json "o['attempts'][1]['left_out'][0]['name'] == 'node1'"
code 0 jobctl why "$job"
has 'node1' out
wait_for "job $job runs" job_is "$job" state running
no_orphans() { [ "$(sqlite3 "$JOBCTL_HOME/jobs.db" 'select count(*) from orphans')" = 0 ]; }
wait_for "nothing of the lost node is left" no_orphans
jobctl cancel "$job" --now
code 3 jobctl wait "$job"

# The controller is killed between: it finds all agents again, and nothing is told twice.
cat >talk.yaml <<'YAML'
resources: {nodes: 2, gpus: 0, cpus: 1}
run: until [ -e "$GO" ]; do sleep 0.05; done; echo "done $RANK"
YAML
job=$(jobctl submit -q talk.yaml --set "env.GO=$WORK/go")
wait_event "$job" kind=generation_started >/dev/null
kill -KILL "$(daemon_pid)"
JOBCTL_NODE_LOST_S=2 jobctl daemon --detach
touch go
jobctl wait "$job"
[ "$(jobctl logs --events "$job" | grep -c generation_started)" = 1 ]
code 0 jobctl logs "$job" --rank 1
has 'done 1' out

# Who looks on at a rank of another node sees its lines at once.
cat >lines.yaml <<'YAML'
resources: {nodes: 2, gpus: 0, cpus: 1}
run: |
  say() { [ $RANK != 1 ] || echo "$1"; }   # the other one writes nothing by which anybody could be woken
  say first; until [ -e "$GO" ]; do sleep 0.05; done
  say second; until [ -e "$GO.on" ]; do sleep 0.05; done
YAML
rm go
job=$(jobctl submit -q lines.yaml --set "env.GO=$WORK/go")
jobctl logs -f "$job" --rank 1 >followed 2>&1 &
follower=$!
wait_for "the follower has the first line" grep first followed
curl -s --unix-socket "$JOBCTL_HOME/jobctl.sock" "http://jobctl/v1/jobs/$job/logs?rank=1&offset=6&wait_s=60" >woken &
sleep 0.5 # that it waits, and for the file of that rank, shows in nothing else
touch go
wait_for 20 "who waited for the log is woken" grep second woken
wait_for "the follower has the second line" grep second followed
touch go.on
wait $follower

# A run job has to have all its nodes: the lost one is taken again, since there is no other.
rm go
job=$(jobctl submit -q talk.yaml --set "env.GO=$WORK/go")
wait_event "$job" kind=generation_started >/dev/null
kill -KILL "$(agent_pid "$job" 1 node1)"
wait_for "attempt 2 of job $job" job_is "$job" attempt 2
touch go
jobctl wait "$job"
[ "$(jobctl logs --events "$job" | grep -c 'placed on 2 nodes, node0 and node1')" = 2 ]

# What cannot be.
code 2 jobctl submit talk.yaml --set resources.min_nodes=3
has 'resources.min_nodes: 3 is more than resources.nodes (2)' err
code 2 jobctl submit talk.yaml --set resources.nodes=4000
has 'resources: 4000 nodes with 1 CPU slot each exceed the' err
