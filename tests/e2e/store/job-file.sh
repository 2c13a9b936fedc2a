# SPDX-License-Identifier: Apache-2.0
# What job.json must record in case the store is lost: which events of an agent the store had (else those of a dead
# agent are duplicated), that the job was taken over (else a living agent is asked for events that exist nowhere), and
# which jobs were removed (else one whose directory somebody restored reappears).
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
db=$JOBCTL_HOME/jobs.db
lose_store() { stop_daemon KILL && rm -f "$db"* "$JOBCTL_HOME"/snapshots/*.db; }
kept() { field run.acked <"$JOBCTL_HOME/jobs/$1/job.json"; }
acked() { sqlite3 "$db" "select acked from attempts where job=$1 and attempt=1"; }

# The agent dies with the store: its spool has the event, and so has job.json.
printf 'name: dies\nrun: until [ -e %s/go ]; do sleep 0.05; done\nretry: {max: 3}\n' "$WORK" >dies.yaml
code 0 jobctl submit -q dies.yaml
wait_event 1 kind=generation_started
agent=$(agent_pid 1 1)
lose_store
kill -KILL "$agent"
wait_for "the agent's end" ended "$agent"
was=$(kept 1)
[ "$was" -gt 0 ]
code 0 jobctl status
[ "$(acked 1)" -ge "$was" ]
touch go
code 0 jobctl wait 1 --timeout 60
job_is 1 attempt 2
[ "$(events_of 1 attempt=1 kind=generation_started | wc -l)" = 0 ]

# The agent lives, and has thrown away events that only the store had: it is not asked for them.
cat >steps.yaml <<YAML
name: steps
run: |
  n=0
  until [ -e $WORK/stop ]; do n=\$((n + 1)); echo "step \$n loss 0.5"; sleep 0.05; done
YAML
code 0 jobctl submit -q steps.yaml
ahead() { [ "$(acked 2)" -gt "$(kept 2)" ]; }
wait_event 2 kind=generation_started
wait_for "events that are in the store alone" ahead
lose_store
code 0 jobctl status
wait_for "the job runs on" job_has 2 step
touch stop
code 0 jobctl wait 2 --timeout 60
job_is 2 attempt 1
has 'of its agent are missing from the store, which was rebuilt' state/daemon.log
lacks 'an event is missing' state/daemon.log

# Removed, and its directory is there again: it stays removed.
cp -a "$JOBCTL_HOME/jobs/1" back
code 0 jobctl remove 1
stop_daemon
cp -a back "$JOBCTL_HOME/jobs/1"
code 3 jobctl show 1
has 'removed' err

# A link in the place of a job's directory may lead to where nothing answers: the loop of the daemon does not follow it.
printf 'name: linked\nrun: echo hello\n' >linked.yaml
code 0 jobctl submit -q --hold linked.yaml
mv "$JOBCTL_HOME/jobs/3" away
ln -s "$WORK/away" "$JOBCTL_HOME/jobs/3"
cp away/job.json before
code 0 jobctl hold --off 3
code 0 jobctl wait 3 --timeout 60
cmp before away/job.json
has "cannot open $JOBCTL_HOME/jobs/3" state/daemon.log
