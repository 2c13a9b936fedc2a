#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The daemon is killed after every event of a job's life, between the commit of the event and its effect. The next
# command starts a daemon that finds the agent again; the result is the same each time, nothing is lost and nothing runs
# twice.
. "$TOP/tests/e2e/wait.sh"
cd "$WORK"
cat >life.yaml <<'YAML'
setup: echo setup >>"$MARKS"
run: |
  echo "generation $JOBCTL_GENERATION" >>"$MARKS"
  [ "$JOBCTL_GENERATION" -gt 1 ] || { echo first; exit 5; }
  echo second
retry: {max: 10, backoff: 0.05s..0.1s}
YAML
expected=$'setup\ngeneration 1\ngeneration 2'

stop() { kill -TERM "$1" && until_ended "$1"; }
until_ended() { wait_for "daemon $1 ends" ended "$1"; }

# check NAME - it ended as if nothing had happened.
check() {
    [ "$(cat "$1.marks")" = "$expected" ] || { echo "$1 ran this: $(cat "$1.marks")"; exit 1; }
    [ "$(jobctl show "$1" --json | field job.result job.attempt job.generation)" = 'succeeded 1 2' ] ||
        { jobctl show "$1"; exit 1; }
    [ "$(jobctl logs "$1" | grep -v '^---')" = $'first\nsecond' ] ||
        { echo "$1 logged: $(jobctl logs "$1")"; exit 1; }
    [ "$(events_of "$1" kind | grep -xE 'submitted|placed|agent_up|setup_done|attempt_ended|done' | tr '\n' ' ')" = \
        'submitted placed agent_up setup_done attempt_ended done ' ] || { jobctl logs --events "$1"; exit 1; }
}

# The life of a job without harm: how many commits is it?
jobctl submit life.yaml --set name=calm --set "env.MARKS=$WORK/calm.marks" --wait -q
check calm
stop "$(daemon_answers)"

n=0
while :; do
    n=$((n + 1))
    name=kill-$n
    JOBCTL_TEST_DIE_AT_EVENT=$n jobctl daemon --detach
    pid=$(daemon_answers)
    # Killed at its first event the daemon cannot answer any more; the job is there all the same.
    jobctl submit life.yaml --set "name=$name" --set "env.MARKS=$WORK/$name.marks" -q || [ $n = 1 ]
    if [ "$(daemon_answers)" = "$pid" ]; then
        curl -s --max-time 60 --unix-socket "$JOBCTL_HOME/jobctl.sock" \
            "http://jobctl/v1/jobs/$name/wait?timeout_s=30" >"$name.wait" || true
    fi
    if alive "$pid" && grep -q '"done":true' "$name.wait"; then
        stop "$pid"             # the whole life was shorter than n events
        break
    fi
    until_ended "$pid"
    jobctl wait "$name" --timeout 60
    check "$name"
    stop "$(daemon_answers)"
done
echo "killed after each of $((n - 1)) events"
[ $n -gt 12 ]

# And a life in which every daemon sees one commit only, which may be of several events.
jobctl submit life.yaml --hold --set name=ever --set "env.MARKS=$WORK/ever.marks" -q
stop "$(daemon_answers)"
export JOBCTL_TEST_DIE_AT_EVENT=1
jobctl daemon --detach
jobctl hold --off ever || true     # not repeated, as a submit with a key would be
daemons=0
while [ $daemons -lt 60 ]; do
    daemons=$((daemons + 1))
    jobctl daemon --detach
    curl -s --max-time 60 --unix-socket "$JOBCTL_HOME/jobctl.sock" \
        "http://jobctl/v1/jobs/ever/wait?timeout_s=30" | grep -q '"done":true' && break
done
unset JOBCTL_TEST_DIE_AT_EVENT
echo "$daemons daemons"
[ $daemons -ge 4 ] # submitted, placed, connected, over
check ever
