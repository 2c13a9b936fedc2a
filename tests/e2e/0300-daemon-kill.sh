#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The daemon is killed after every single event of a job's life: between the commit of the event and
# its effect.  The next command starts a daemon that finds the agent again; the end is the same each
# time, nothing is lost and nothing runs twice.
cd "$WORK"
cat >life.yaml <<'YAML'
setup: echo setup >>"$MARKS"
run: |
  echo "generation $JOBCTL_GENERATION" >>"$MARKS"
  [ "$JOBCTL_GENERATION" -gt 1 ] || { echo first; exit 5; }
  echo second
retry: {backoff: 0.05s..0.1s}
YAML
expected=$'setup\ngeneration 1\ngeneration 2'

field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p"; }
daemon_pid() { curl -s --max-time 5 --unix-socket "$JOBCTL_HOME/jobctl.sock" http://jobctl/v1/version | field pid; }

# alive PID - and no zombie; ended PID - wait until it is gone.
alive() { grep -q '^State:.[^ZX]' "/proc/$1/status" 2>/dev/null; }
ended() { while alive "$1"; do sleep 0.01; done; }
stop() { kill -TERM "$1" && ended "$1"; }

# check NAME - it ended as if nothing had happened.
check() {
    local row
    row=$(jobctl show "$1" --json)
    [ "$(cat "$1.marks")" = "$expected" ] || { echo "$1 ran this: $(cat "$1.marks")"; exit 1; }
    for want in '"result": *"succeeded"' '"attempt": *1' '"generation": *2'; do
        grep -q "$want" <<<"$row" || { echo "$1: no $want in $row"; exit 1; }
    done
    [ "$(jobctl logs "$1" | grep -v '^---')" = $'first\nsecond' ] ||
        { echo "$1 logged: $(jobctl logs "$1")"; exit 1; }
    jobctl events "$1" --json >"$1.events"
    for kind in submitted placed agent_up setup_done attempt_ended done; do
        [ "$(grep -o "\"kind\": *\"$kind\"" "$1.events" | wc -l)" = 1 ] ||
            { echo "$1: not one event $kind"; jobctl events "$1"; exit 1; }
    done
}

# The life of a job without harm: how many commits is it?
jobctl submit life.yaml --set name=calm --set "env.MARKS=$WORK/calm.marks" --wait -q
check calm
stop "$(daemon_pid)"

n=0
while :; do
    n=$((n + 1))
    name=kill-$n
    JOBCTL_TEST_DIE_AT_EVENT=$n jobctl daemon --detach
    pid=$(daemon_pid)
    # Killed at its first event the daemon cannot answer any more; the job is there all the same.
    jobctl submit life.yaml --set "name=$name" --set "env.MARKS=$WORK/$name.marks" -q || [ $n = 1 ]
    if [ "$(daemon_pid)" = "$pid" ]; then
        curl -s --max-time 60 --unix-socket "$JOBCTL_HOME/jobctl.sock" \
            "http://jobctl/v1/jobs/$name/wait?timeout_s=30" >"$name.wait" || true
    fi
    if alive "$pid" && grep -q '"done":true' "$name.wait"; then
        stop "$pid"             # the whole life was shorter than n events
        break
    fi
    ended "$pid"
    jobctl wait "$name" --timeout 60
    check "$name"
    stop "$(daemon_pid)"
done
echo "killed after each of $((n - 1)) events"
[ $n -gt 12 ]

# And a life in which every daemon sees one event only.
export JOBCTL_TEST_DIE_AT_EVENT=1
jobctl daemon --detach
jobctl submit life.yaml --set name=ever --set "env.MARKS=$WORK/ever.marks" -q || true
daemons=0
while [ $daemons -lt 60 ]; do
    daemons=$((daemons + 1))
    jobctl daemon --detach
    curl -s --max-time 60 --unix-socket "$JOBCTL_HOME/jobctl.sock" \
        "http://jobctl/v1/jobs/ever/wait?timeout_s=30" | grep -q '"done":true' && break
done
unset JOBCTL_TEST_DIE_AT_EVENT
echo "$daemons daemons"
[ $daemons -gt 10 ]
check ever
