# SPDX-License-Identifier: Apache-2.0
# Two users of one machine with jobs on several simulated nodes: the jobs wait for each other's CPU slots, report on
# which node, and resources are released when the job ends, is cancelled, or its agent is killed.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
export JOBCTL_MACHINE_DIR=$WORK/machine
mkdir -m 1777 machine
cpu=$(taskset -cp $$ | python3 -c '
import sys
out = []
for part in sys.stdin.read().split(":")[1].strip().split(","):
    ends = part.split("-")
    out += range(int(ends[0]), int(ends[-1]) + 1)
print(*out[:2], sep=",")')      # a machine with two CPU slots
case $cpu in *,*) ;; *) echo "one processor: two nodes cannot be simulated" && exit 77 ;; esac
mkdir -p u1/state u2/state
as() { # USER COMMAND...
    (cd "$WORK/u$1" && taskset -c "$cpu" env HOME="$WORK/u$1" JOBCTL_HOME="$WORK/u$1/state" "${@:2}")
}
end_daemons() {
    local u pid
    touch "$WORK/go"
    for u in 1 2; do
        pid=$(curl -s --max-time 10 --unix-socket "$WORK/u$u/state/jobctl.sock" http://jobctl/v1/version |
            field pid) || continue
        as "$u" jobctl cancel --all --now || true
        kill "$pid" && wait_for "the end of the daemon of user $u" ended "$pid"
    done
}
trap end_daemons EXIT
cat >job.yaml <<YAML
name: pair
resources: {nodes: 2, ranks: 1, gpus: 0, cpus: 1}
retry: {max: 20, backoff: 0s..0s}
run: |
  mkdir -p $WORK/in && echo \$WHO >>$WORK/starts
  while [ ! -e $WORK/go.\$WHO ] && [ ! -e $WORK/go ]; do sleep 0.02; done
YAML
cp job.yaml u1 && cp job.yaml u2
in_state() { [ "$(as "$1" jobctl show "$2" --json | read_json get job.state)" = "$3" ]; }
starts() { [ "$(grep -cx "$1" starts)" = "$2" ]; }
as 1 jobctl submit -q job.yaml --set env.WHO=one
wait_for "the ranks of the first user run on both nodes" starts one 2
as 2 jobctl submit -q job.yaml --set env.WHO=two
wait_for "the second user's job says for what it waits, and on which node" \
    matches '[a-z0-9]: waiting for 2 CPU slots, 0 of 2 are free: 2 are held by' as 2 jobctl why 1 --json
as 2 jobctl why 1 --json | tee out
lacks two starts

# The first one ends: the other begins.
touch go.one
as 1 jobctl wait 1 --timeout 60
wait_for "the ranks of the second user run" starts two 2

# The first user waits; its agent is killed, and the other one's: nothing is left locked.
as 1 jobctl submit -q job.yaml --set env.WHO=three
wait_for "the first user waits" matches 'aiting for 2 CPU slots' as 1 jobctl why 2 --json
kill -9 "$(field pid <u1/state/jobs/2/1/agent.json)"
kill -9 "$(field pid <u2/state/jobs/1/1/agent.json)"
touch go
as 1 jobctl wait 2 --timeout 100
as 2 jobctl wait 1 --timeout 100

# A job that waits is cancelled.
rm go
as 2 jobctl submit -q job.yaml --set env.WHO=four
wait_for "the ranks of the fourth job run" starts four 2
as 1 jobctl submit -q job.yaml --set env.WHO=five
wait_for "the fifth waits" matches 'aiting for 2 CPU slots' as 1 jobctl why 3 --json
as 1 jobctl cancel 3
code 3 as 1 jobctl wait 3 --timeout 60
lacks five starts
touch go
as 2 jobctl wait 2 --timeout 60
end_daemons
[ -z "$(ls machine | grep '^claim-')" ] || { ls -l machine; exit 1; }
