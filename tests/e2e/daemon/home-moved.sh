#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The home is removed, renamed or replaced under a running daemon: it stops, reports where the home is, and touches
# nothing of a second daemon that serves the old path. A home that is moved away and back is the same home.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
home=$JOBCTL_HOME away=$WORK/away
trap 'touch "$WORK/go"' EXIT
cat >job.yaml <<YAML
name: old
run: until [ -e "$WORK/go" ]; do sleep 0.05; done
retry: {backoff: 0.05s..0.1s}
YAML

# daemon_ends PID CODE: the daemon in the foreground ends so
daemon_ends() {
    local got=0
    wait_for "daemon $1 ends" ended "$1"
    wait "$1" || got=$?
    [ "$got" = "$2" ] || { echo "the daemon ended with $got"; cat "$WORK/err"; exit 1; }
}
# serve: a daemon in the foreground; sets $daemon once it answers
serve() {
    jobctl daemon 2>"$WORK/err" &
    daemon=$!
    wait_for "the daemon answers" daemon_answers
}

# Moved away and back: nothing has happened.
serve
for i in $(seq 20); do mv "$home" "$away" && mv "$away" "$home"; done
[ "$(jobctl submit -q --wait --set name=before --set run=true job.yaml)" = 1 ]
[ "$(daemon_pid)" = "$daemon" ]

# Renamed: it ends, nothing is made at the old path, and the job goes on once the home is back.
id=$(jobctl submit -q job.yaml)
wait_event "$id" kind=generation_started >/dev/null
mv "$home" "$away"
daemon_ends "$daemon" 4
has "stopping: $home (JOBCTL_HOME) was moved to $away; its jobs continue once the directory is back" err
gone "$home"
gone "$away/jobctl.sock"
mv "$away" "$home"
touch go
jobctl wait "$id"
stop_daemon
rm go

# Replaced, by a home with a daemon of its own: the first one leaves it alone, and says so in its own log.
jobctl daemon --detach
first=$(daemon_answers)
id=$(jobctl submit -q --set name=first job.yaml)
wait_event "$id" kind=generation_started >/dev/null
mv "$home" "$away"
[ "$(jobctl submit -q --set name=second job.yaml)" = 1 ]
second=$(daemon_answers)
[ "$second" != "$first" ]
wait_for "daemon $first ends" ended "$first"
says "was moved to $away, and another one is in its place; its jobs continue" cat "$away/daemon.log"
! says "$away" cat "$home/daemon.log" || exit 1
[ "$(daemon_answers)" = "$second" ]
[ "$(jobctl status -a --json | field jobs.0.name)" = second ]
[ -e "$home/jobs.db-wal" ]
touch go
jobctl wait 1
kill "$second"
wait_for "the second daemon ends" ended "$second"
mv "$home" "$WORK/second"
mv "$away" "$home"
jobctl wait "$id"
stop_daemon

# Removed: it ends, and does not make a new one.
serve
rm -rf "$home"
daemon_ends "$daemon" 4
has "stopping: $home (JOBCTL_HOME) was removed; the jobs in it are lost unless the directory is restored" err
gone "$home"
