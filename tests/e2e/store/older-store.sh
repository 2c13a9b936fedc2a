# SPDX-License-Identifier: Apache-2.0
# A restored older store whose ids name other jobs than the directories: the agent of such a job is neither adopted nor
# signalled, its directory is unchanged, and each row reports it.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
store=$JOBCTL_HOME/jobs.db
cat >job.yaml <<YAML
run: touch $WORK/began-\$ME; until [ -e $WORK/go-\$ME ]; do sleep 0.01; done
resources: {ranks: 1, cpus: 1}
retry: {max: 2}
YAML
job() { jobctl submit -q job.yaml --set "name=$1" --set "env.ME=$1" "${@:2}"; } # NAME [OPTION...]
pids() { field pid <"$JOBCTL_HOME/jobs/$1/1/agent.json"; } # JOB

# The store as it was: one job that waits, one that ran.
job waits --hold
job old
wait_for "the old job runs" test -e began-old
old_agent=$(pids 2)
stop_daemon
mkdir backup
cp -a "$store"* backup/

# Then it was lost: the same ids came to other jobs.
kill -9 "$old_agent"
wait_for "the old agent's end" ended "$old_agent"
touch go-old
rm -rf "$store"* "$JOBCTL_HOME/snapshots" "$JOBCTL_HOME/jobs"
job fresh
job alive
wait_for "the jobs run" test -e began-fresh -a -e began-alive
[ "$(job_field alive id)" = 2 ]
agents="$(pids 1) $(pids 2)"
[ "$(field origin <"$JOBCTL_HOME/jobs/2/1/agent.json")" = "$(field checkpoint.origin <"$JOBCTL_HOME/jobs/2/spec.json")" ]
stop_daemon
(cd "$JOBCTL_HOME/jobs" && find . -type f ! -name '*.log' ! -name 'rank*' | sort) >before

# The old store is restored.
rm -f "$store"*
cp -a backup/. "$JOBCTL_HOME/"
jobctl hold --off 1
code 1 jobctl wait 1 --timeout 60
jobctl why 1 | tr -s ' \n' ' ' >why
has "$JOBCTL_HOME/jobs/1 belongs to another job (fresh)" why
code 1 jobctl wait 2 --timeout 60
jobctl why 2 | tr -s ' \n' ' ' >why
has "belongs to another job (alive)" why
has "$JOBCTL_HOME/jobs/2/1 holds an attempt of another job, whose agent runs, and was not changed" state/daemon.log
for pid in $agents; do
    alive "$pid"
done
(cd "$JOBCTL_HOME/jobs" && find . -type f ! -name '*.log' ! -name 'rank*' | sort) | cmp before -

# Their agents wait for the store that knows them.
touch go-fresh go-alive
finished() { grep -q attempt_ended "$JOBCTL_HOME/jobs/$1/1/agent.log"; }
wait_for "the end of job 1" finished 1
wait_for "the end of job 2" finished 2
kill -9 $agents
wait_for "the ends of the agents" ended $agents
