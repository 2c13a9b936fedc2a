# SPDX-License-Identifier: Apache-2.0
# The store is lost, and its copy is older than what the agent of a running job knows to be stored, so events exist
# nowhere. The job still continues and ends; the daemon reports what is missing, and asks for it once.
. "$TOP/tests/e2e/events.sh"
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
cat >job.yaml <<YAML
name: copied
run: |
  touch began
  n=0
  until [ -e $WORK/go ]; do n=\$((n + 1)); echo "step \$n loss 0.5"; sleep 0.05; done
YAML
id=$(jobctl submit -q job.yaml)
wait_for "the job runs" job_has "$id" step

# A daemon that starts makes the copy.
pid=$(daemon_answers)
kill -KILL "$pid"
wait_for "the daemon's end" ended "$pid"
jobctl status >status
wait_for "a copy of the store" matches jobs- ls "$JOBCTL_HOME/snapshots"

# Then it makes steps, which its agent is told are stored.
step=$(job_field "$id" step)
later() { [ "$(job_field "$id" step)" -gt $((step + 60)) ]; }
wait_for "more steps" later
pid=$(daemon_answers)
kill -KILL "$pid"
wait_for "the daemon's end" ended "$pid"
rm "$JOBCTL_HOME"/jobs.db*
code 0 jobctl status
tr -s ' \n' ' ' <err >said
has 'The store was lost; it was replaced by its copy jobs-' said
touch go
code 0 jobctl wait "$id" --timeout 60
job_is "$id" result succeeded
job_is "$id" attempt 1
has 'of its agent are missing from the store, which was rebuilt' state/daemon.log
[ "$(grep -c 'an event is missing' state/daemon.log)" -le 1 ]
