# SPDX-License-Identifier: Apache-2.0
# resources.nodes over SSH: one job on four real hosts trains to the bits of one rank here; a cut of three
# seconds costs nothing; a host without power is named, the job takes another one, and when there is
# none left goes on smaller, whatever becomes of the controller; logs and secrets of all nodes.
. "$TOP/tests/hosts.sh"
hosts_apart
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
HOST_ENV="JOBCTL_NODE_LOST_S=4"
hosts_up gpu1 gpu2 gpu3 gpu4
mkdir -p config/jobctl
export XDG_CONFIG_HOME=$WORK/config
echo 'groups: {gpus: [gpu1, gpu2, gpu3]}' >config/jobctl/config.yaml
JOBCTL_HOST_LOST_S=8 jobctl daemon --detach

cat >train.yaml <<YAML
launch: ssh
hosts: [gpus]
resources: {nodes: 2, ranks: 2, gpus: 0}
secrets: [TOKEN]
env: {OMP_NUM_THREADS: "1"}
train:
  model: {preset: tiny}
  data: {path: $TOP/templates/data/tango-icons, caption_words: 4, caption_channels: 32}
  batch: {global: 8}
  steps: 12
  reproducible: true
  sample: {after: false}
checkpoint: {every: 4 steps, dir: $WORK/two}
retry: {backoff: 0.05s..0.1s}
YAML
export TOKEN=very-secret-word
fail() { jobctl events "$1"; cat "$JOBCTL_HOME/daemon.log" "$JOBCTL_HOME/jobs/$1"/*/agent.log "$JOBCTL_HOME/jobs/$1"/*/node*/*.log; exit 1; }
losses() { sed 's/.*"step":\([0-9]*\),"loss":\([^,]*\),.*/\1 \2/' "$1/metrics.jsonl"; }
jobctl submit -q train.yaml --set 'hosts=[gpus,gpu4]' --set resources.nodes=4 --set resources.ranks=1 --wait || fail 1
jobctl submit -q train.yaml --set launch=local --set 'hosts=[]' --set resources.nodes=1 \
    --set resources.ranks=1 --set "checkpoint.dir=$WORK/one" --wait
cmp <(losses one) <(losses two)
code 0 jobctl show 1 --json
json "[(n['name'], n['hostname'], n['first_rank'], n['state']) for n in o['attempts'][0]['nodes']] == [('gpu%d' % (k + 1), 'gpu%d' % (k + 1), k, 'joined') for k in range(4)]"
! grep -rlF very-secret-word "$JOBCTL_HOME" "$WORK"/gpu?/.local || exit 1

# Logs of ranks elsewhere; the cable of one host is cut for three seconds.
cat >talk.yaml <<'YAML'
launch: ssh
hosts: [gpu1, gpu2]
resources: {nodes: 2, gpus: 0}
secrets: [TOKEN]
run: |
  echo "rank $RANK on $(hostname), secret of ${#TOKEN} letters"
  until [ -e "$GO" ]; do sleep 0.1; done
  echo "done"
retry: {backoff: 0.05s..0.1s}
YAML
job=$(jobctl submit -q talk.yaml --set "env.GO=$WORK/go")
until jobctl logs "$job" --rank 1 2>/dev/null | grep 'rank 1 on gpu2, secret of 16 letters'; do sleep 0.05; done
host_cut gpu2
sleep 2.5 # the length of the cut is what is tested: less than the time after which a node is lost
host_mend gpu2
kill -KILL "$(daemon_pid)"
JOBCTL_HOST_LOST_S=8 jobctl daemon --detach
touch go
jobctl wait "$job" || fail "$job"
[ "$(jobctl events "$job" | grep -c generation_started)" = 1 ]
until jobctl logs "$job" --rank 1 | grep done; do sleep 0.1; done   # the rest of a log comes after the end

# A host that failed three times is left out where another will do, and the reason is told.
cp "$HOME/.ssh/known_hosts" known
grep -vF "$(host_address gpu4)" known >"$HOME/.ssh/known_hosts"
for i in 1 2 3; do
    code 1 jobctl submit -q talk.yaml --set resources.nodes=1 --set 'hosts=[gpu4]' --set 'secrets=[]' --wait
done
cp known "$HOME/.ssh/known_hosts"
job=$(jobctl submit -q talk.yaml --set resources.nodes=1 --set 'hosts=[gpu4,gpu1]' --set "env.GO=$WORK/go")
jobctl wait "$job"
jobctl events "$job" | grep 'placed on gpu1; without gpu4 (failed 3 times lately: gpu4 is not in known_hosts'

# Power lost at a node: another one takes its place; at that one, too: the job goes on smaller.
job=$(jobctl submit -q train.yaml --set train.steps=100000000 --set "checkpoint.dir=$WORK/long" --set 'secrets=[]')
until jobctl events "$job" | grep -q 'checkpoint of step'; do sleep 0.05; done
host_off gpu2
until jobctl events "$job" | grep 'placed on 2 nodes, gpu[13] and gpu[13]'; do sleep 0.1; done
jobctl events "$job" | grep 'without gpu2 (lost before'
until [ "$(jobctl events "$job" | grep -c 'nodes have joined')" = 2 ]; do sleep 0.1; done
kill -KILL "$(daemon_pid)"
host_off gpu3
JOBCTL_HOST_LOST_S=8 jobctl daemon --detach
until jobctl events "$job" | grep 'placed on gpu1'; do sleep 0.1; done
until jobctl events "$job" --json | tr '{' '\n' | grep '"resume_step": *[1-9]' | sed -n '$p' | grep .; do sleep 0.1; done
until jobctl status | grep -q running; do sleep 0.1; done
jobctl why "$job" | grep node_lost
jobctl nodes | grep '^gpu2 *failing'
jobctl cancel "$job" --now
code 3 jobctl wait "$job"
