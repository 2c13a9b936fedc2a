#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The agent is killed with -9 while there is no daemon: its attempt is proven to be over, the processes it left are
# ended, and a new attempt finishes the job. (With a daemon: tests/outcomes.)
. "$TOP/tests/e2e/wait.sh"
cd "$WORK"
cat >job.yaml <<'YAML'
run: |
  echo "attempt $JOBCTL_ATTEMPT $$" >>"$MARKS"
  [ "$JOBCTL_ATTEMPT" -gt 1 ] || exec sleep 1000
retry: {backoff: 0.05s..0.1s}
YAML
id=$(jobctl submit job.yaml --set "env.MARKS=$WORK/marks" -q)
wait_for "job $id runs" test -s marks
daemon=$(daemon_answers)
kill -KILL "$daemon"
wait_for "daemon $daemon ends" ended "$daemon"
kill -KILL "$(agent_pid "$id" 1)"
jobctl wait "$id" --timeout 60
[ "$(wc -l <marks)" = 2 ] || { echo "it ran: $(cat marks)"; exit 1; }
job_is "$id" attempt 2
! alive "$(sed -n 's/^attempt 1 //p' marks)" || exit 1
jobctl why "$id" | grep -qi 'agent'

# What a dead agent had left can be ended by hand, too.
[ "$(jobctl-agent cleanup "$JOBCTL_HOME/jobs/$id/1")" = clean ]

# An agent whose agent.json was damaged while there was no daemon is found by its lock and its socket.
cat >held.yaml <<YAML
run: touch $WORK/\$ME.began; until [ -e $WORK/\$ME.go ]; do sleep 0.01; done
retry: {max: 0}
YAML
damaged() { # NAME DAMAGE
    id=$(jobctl submit -q held.yaml --set "name=$1" --set "env.ME=$1")
    wait_for "job $1 runs" test -e "$1.began"
    daemon=$(daemon_answers)
    kill -KILL "$daemon"
    wait_for "daemon $daemon ends" ended "$daemon"
    sed -i "$2" "$JOBCTL_HOME/jobs/$id/1/agent.json"
    touch "$1.go"
    jobctl wait "$id" --timeout 60
    job_is "$id" attempt 1
}
damaged unreadable 's/^{/[/'
grep -q "agent.json' is not an agent's identity.*; its agent answers" "$JOBCTL_HOME/daemon.log"
damaged another-pid 's/"pid":[0-9]*/"pid":1/'
