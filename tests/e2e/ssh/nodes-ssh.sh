# SPDX-License-Identifier: Apache-2.0
# resources.nodes over SSH, on four real hosts: the same job as here, with the same bits. Closed login sessions and a
# cable cut for three seconds cost nothing; a cable cut forever, all processes killed, or a power cut, also on the first
# host, costs that host: the next attempt runs on others, or with fewer, and nothing of the abandoned attempt stays
# alive.
. "$TOP/tests/hosts.sh"
hosts_apart
. "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/nodes.sh"
cd "$WORK"
hosts_up gpu1 gpu2 gpu3 gpu4
mkdir -p config/jobctl
export XDG_CONFIG_HOME=$WORK/config
printf '%s\n' 'groups: {gpus: [gpu1, gpu2, gpu3]}' 'host_lost: 8s' 'node_lost: 4s' >config/jobctl/config.yaml
# The terminal from which it was started is closed at once: it goes on.
script -qec 'jobctl daemon --detach' /dev/null
fail() { jobctl logs --events "$1"; cat "$JOBCTL_HOME/daemon.log" "$JOBCTL_HOME/jobs/$1"/*/agent.log "$JOBCTL_HOME/jobs/$1"/*/node*/*.log; exit 1; }

# Two nodes played here, two hosts, four hosts.
export TOKEN=very-secret-word
for name in four two here; do place $name; done
jobctl submit -q four/nodes.yaml --set launch=ssh --set 'hosts=[gpus,gpu4]' --set 'secrets=[TOKEN]' \
    --set resources.nodes=4 --set resources.ranks=1
jobctl submit -q two/nodes.yaml --set launch=ssh --set 'hosts=[gpus]'
jobctl submit -q here/nodes.yaml
for job in 1 2 3; do jobctl wait $job || fail $job; done
same here two four
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
wait_for "rank 1 runs on gpu2" says 'rank 1 on gpu2, secret of 16 letters' jobctl logs "$job" --rank 1
for h in gpu1 gpu2; do host_drop $h; done   # the login sessions
host_cut gpu2
sleep 2.5 # the length of the cut is what is tested: less than the time after which a node is lost
host_mend gpu2
kill -KILL "$(daemon_pid)"
jobctl daemon --detach
touch go
jobctl wait "$job" || fail "$job"
[ "$(jobctl logs --events "$job" | grep -c generation_started)" = 1 ]
wait_for "the rest of a log comes after the end" says done jobctl logs "$job" --rank 1

# A host that failed three times is left out where another will do, and the reason is told.
# One machine by two names is found out at once, too.
sed -n '/^Host gpu1$/,/Port/{s/gpu1$/again/;p}' "$HOME/.ssh/config" | cat - "$HOME/.ssh/config" >config.again
cp config.again "$HOME/.ssh/config"
job=$(jobctl submit -q talk.yaml --set resources.min_nodes=1 --set 'hosts=[gpu1,again]' --set 'secrets=[]' --set "env.GO=$WORK/go")
jobctl wait "$job" || fail "$job"
jobctl logs --events "$job" | grep ' 1 node_lost .*again cannot be used: it is the same machine as gpu1'

cp "$HOME/.ssh/known_hosts" known
grep -vF "$(host_address gpu4)" known >"$HOME/.ssh/known_hosts"
for i in 1 2; do
    code 1 jobctl submit -q talk.yaml --set resources.nodes=1 --set 'hosts=[gpu4]' --set 'secrets=[]' --wait
done
# One of several: it is not waited for until the others have lost their patience.
job=$(jobctl submit -q talk.yaml --set resources.min_nodes=1 --set 'hosts=[gpu1,gpu4]' --set "env.GO=$WORK/go")
jobctl wait "$job" || fail "$job"
jobctl logs --events "$job" | grep 'node_lost .*gpu4 cannot be used: gpu4 is not in known_hosts'
jobctl logs --events "$job" | grep 'placed on gpu1; excluded: gpu4'
cp known "$HOME/.ssh/known_hosts"
job=$(jobctl submit -q talk.yaml --set resources.nodes=1 --set 'hosts=[gpu4,gpu1]' --set "env.GO=$WORK/go")
jobctl wait "$job"
jobctl logs --events "$job" | grep 'placed on gpu1; excluded: gpu4 (failed 3 times recently: gpu4 is not in known_hosts'

# All processes of a host are killed: that it is gone is proven, and nobody waits for a limit.
jobctl nodes resume gpu4
place long
job=$(jobctl submit -q long/nodes.yaml --set launch=ssh --set 'hosts=[gpus,gpu4]' --set train.steps=100000000)
host_is_free() { # HOST: nothing of any attempt lives there
    for p in $(host_pids "$1"); do
        ! { tr '\0' ' ' <"/proc/$p/cmdline"; } 2>/dev/null | grep -e jobctl-train -e 'jobctl-agent run' || return 1
    done
}
placed() { # TEXT: so, and it trains on from a checkpoint
    wait_event "$job" kind=placed "text~placed on $1" >placed
    field text <placed
    wait_for "job $job trains on" resumes "$job" attempt="$(field attempt <placed)"
}
wait_event "$job" kind=checkpoint >/dev/null
for p in $(host_pids gpu2); do kill -KILL "$p" 2>/dev/null || true; done
placed '2 nodes, gpu1 and gpu3; excluded: gpu2 (lost before'
jobctl logs --events "$job" | grep 'node_lost .*gpu2 is gone: the agent of attempt 1 died'

# The cable of a host is cut for ever, the host lives on: it ends what it has, and the others go on.
host_cut gpu3
placed '2 nodes, gpu1 and gpu4; '
jobctl logs --events "$job" | grep 'node_lost .*gpu3 sent no heartbeat for 6 s'
host_is_free gpu3

# The first one's power is lost while the controller is away; the cut host comes back. The job goes on
# smaller, with the one that is left.
host_mend gpu3
kill -KILL "$(daemon_pid)"
host_off gpu1
jobctl daemon --detach
placed 'gpu4; '
jobctl why "$job" | grep -e node_lost -e 'gpu1 has not answered'
jobctl nodes | grep '^gpu1 *failing'
wait_for "job $job runs" job_is "$job" state running
jobctl cancel "$job" --now
code 3 jobctl wait "$job"
for h in gpu2 gpu3 gpu4; do wait_for "nothing of the job is left on $h" host_is_free $h; done
