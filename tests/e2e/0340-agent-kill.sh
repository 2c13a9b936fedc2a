#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The agent is killed with -9, once under a daemon and once while there is none: its attempt is
# proven over, what it had left running is ended, and a new attempt finishes the job.
cd "$WORK"
cat >job.yaml <<'YAML'
run: |
  echo "attempt $JOBCTL_ATTEMPT $$" >>"$MARKS"
  [ "$JOBCTL_ATTEMPT" -gt 1 ] || exec sleep 1000
retry: {backoff: 0.05s..0.1s}
YAML
agent_pid() { sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' "$JOBCTL_HOME/jobs/$1/1/agent.json"; }
alive() { grep -q '^State:.[^ZX]' "/proc/$1/status" 2>/dev/null; }
until_marked() { until [ -s "$1.marks" ]; do sleep 0.02; done; }

check() {
    jobctl wait "$1" --timeout 60
    [ "$(wc -l <"$1.marks")" = 2 ] || { echo "it ran: $(cat "$1.marks")"; exit 1; }
    jobctl show "$1" --json | grep -q '"attempt": *2'
    ! alive "$(sed -n 's/^attempt 1 //p' "$1.marks")" || exit 1
    jobctl why "$1" | grep -qi 'agent'
}

id=$(jobctl submit job.yaml --set name=seen --set "env.MARKS=$WORK/seen.marks" -q)
until_marked seen
kill -KILL "$(agent_pid "$id")"
check seen

id=$(jobctl submit job.yaml --set name=unseen --set "env.MARKS=$WORK/unseen.marks" -q)
until_marked unseen
daemon=$(curl -s --unix-socket "$JOBCTL_HOME/jobctl.sock" http://jobctl/v1/version |
         sed -n 's/.*"pid":\([0-9]*\).*/\1/p')
kill -KILL "$daemon"
while alive "$daemon"; do sleep 0.01; done
kill -KILL "$(agent_pid "$id")"
check unseen

# What a dead agent had left can be ended by hand, too; the command had another name once.
for word in cleanup sweep; do
    [ "$(jobctl-agent $word "$JOBCTL_HOME/jobs/$id/1")" = clean ]
done
