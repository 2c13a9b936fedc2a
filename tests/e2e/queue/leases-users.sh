# SPDX-License-Identifier: Apache-2.0
# Three users of one machine, each with a daemon, and jobs that need all CPU slots: never two at once, even if agents
# are killed, and everybody gets a turn. As root they are three real users. LEASE_JOBS: jobs per user
# (tests/soak/leases.sh).
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
jobs=${LEASE_JOBS:-4}
export JOBCTL_MACHINE_DIR=$WORK/machine
chmod 711 .
mkdir -m 1777 machine
mkdir bin
cp "$BIN"/jobctl "$BIN"/jobctl-agent "$BIN"/jobctl-train bin # where other users can read them
true >inside && true >two && true >starts
chmod 666 inside two starts
cpu=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//') # a machine with one CPU slot
for u in 1 2 3; do
    mkdir -p "u$u/state"
    [ "$(id -u)" != 0 ] || chown -R "$((65420 + u)):$((65420 + u))" "u$u"
done
as() { # USER COMMAND...
    local u=$1 who=()
    [ "$(id -u)" != 0 ] || who=(setpriv "--reuid=$((65420 + u))" "--regid=$((65420 + u))" --clear-groups)
    (cd "$WORK/u$u" && taskset -c "$cpu" "${who[@]}" env HOME="$WORK/u$u" JOBCTL_HOME="$WORK/u$u/state" \
        PATH="$WORK/bin:$PATH" "${@:2}")
}
end_daemons() {
    local u pid
    for u in 1 2 3; do
        pid=$(curl -s --max-time 10 --unix-socket "$WORK/u$u/state/jobctl.sock" http://jobctl/v1/version |
            field pid) || continue
        kill "$pid" && wait_for "the end of the daemon of user $u" ended "$pid"
    done
}
trap 'touch "$WORK/go" && end_daemons' EXIT
# The lock is on the lowest descriptor: a killed process closes it before that of its lease.
for u in 1 2 3; do
    cat >"u$u/job.yaml" <<YAML
name: turn
resources: {cpus: 1}
retry: {max: 20, backoff: 0s..0s}
run: |
  exec 0>>$WORK/inside
  flock -n 0 || echo "user $u" >>$WORK/two
  echo $u >>$WORK/starts
  while [ ! -e $WORK/go ]; do sleep 0.02; done
YAML
    chmod 644 "u$u/job.yaml"
done
as 1 jobctl submit -q job.yaml
wait_for "the first job runs" test -s starts
for u in 1 2 3; do
    for ((i = $((u == 1)); i < jobs; i++)); do as "$u" jobctl submit -q job.yaml; done
done
name=$(as 1 id -un 2>/dev/null || echo "user $((65420 + 1))")
wait_for "who is waited for" \
    says "waiting for 1 CPU slot, 0 of 1 are free: 1 is held by $name since" as 2 jobctl why 1 --json
wait_for "three waits" matches 'waits for 1 CPU slot' as 3 jobctl nodes
as 3 jobctl nodes | grep -F "$name since" | grep -vF 'waits' | grep 'UTC.*: 1 CPU slot' ||
    { as 3 jobctl nodes; exit 1; }
as 3 jobctl status --json | field machine | grep -F "$name since"

# kill -9: the agent that holds the machine, and one that waits for it
holder=$(field pid <u1/state/jobs/1/1/agent.json)
kill -9 "$holder"
waiter=$(field pid <u2/state/jobs/1/1/agent.json)
kill -9 "$waiter" || true # it may have started meanwhile, or not
touch go
for u in 1 2 3; do
    for ((i = 1; i <= jobs; i++)); do
        as "$u" jobctl wait "$i" --timeout 600 >>out || { cat out; as "$u" jobctl why "$i"; exit 1; }
    done
done
[ ! -s two ] || { echo "two holders:"; cat two; exit 1; }
sort starts | uniq -c
[ "$(sort -u starts | wc -l)" = 3 ]
[ "$(head -n $((jobs + 4)) starts | sort -u | wc -l)" = 3 ] || { echo "someone had no turn:"; cat starts; exit 1; }
[ "$(wc -l <starts)" -ge $((3 * jobs)) ]
end_daemons
[ -z "$(ls machine | grep '^claim-')" ] || { ls -l machine; exit 1; }
