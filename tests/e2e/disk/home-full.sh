# SPDX-License-Identifier: Apache-2.0
# The disk of the home is full, and with it that of spools, logs and store. Jobs continue and end; their events are
# stored when there is space; output lost from logs is counted. A submit is refused with a remedy that works: `prune`
# removes jobs. Afterwards there is no second attempt, no duplicate event, and none is missing.
[ -n "${MOUNTED-}" ] || {
    mkdir "$WORK/disk"
    unshare -m mount -t tmpfs -o size=48m none "$WORK/disk" || { echo "no file system can be mounted here"; exit 77; }
    exec env MOUNTED=1 unshare -m bash -euc 'mount -t tmpfs -o size=48m none "$WORK/disk"; . "$1"' - "$0"
}
. "$TOP/tests/e2e/wait.sh"
export JOBCTL_HOME=$WORK/disk/state
cd "$WORK"
jobctl daemon --detach
daemon=$(daemon_answers)
trap 'touch enough end; kill "$daemon"; wait_for "the daemon ends" ended "$daemon"' EXIT
fill() { cat /dev/zero >>disk/rest 2>/dev/null || true; }
said_more() { wait_for "job 3 says $1 lines more" more_than $(($(cat said) + $1)); }
more_than() { [ "$(cat said)" -gt "$1" ]; }

printf 'run: "true"\nresources: {cpus: 1}\n' >short.yaml
head -c 300000 /dev/zero >old
for id in 1 2; do
    jobctl submit --wait -q short.yaml
    cp old "$JOBCTL_HOME/jobs/$id/large"
done
cat >talk.yaml <<YAML
run: |
  n=0
  while [ ! -e enough ]; do
    n=\$((n + 1))
    echo "line \$n, \$(printf %0300d 0)"
    echo \$n >said.new && mv said.new said
    sleep 0.01
  done
resources: {cpus: 1}
YAML
printf 'run: "while [ ! -e end ]; do sleep 0.02; done; touch ended"\nresources: {cpus: 1}\n' >end.yaml
jobctl submit -q talk.yaml
jobctl submit -q end.yaml
jobctl submit -q short.yaml --set 'after=[4]'
wait_event 4 kind=generation_started
wait_for "job 3 runs" test -s said
[ -s "$JOBCTL_HOME/reserve" ]

# The store's journal has some room that is its own: taken by events until it says no.
fill
wait_for "there is not a byte" eval 'fill; jobctl submit short.yaml --hold >out 2>err || [ $? = 4 ]; [ -s err ]'
grep -F "the job was not submitted: the disk of $JOBCTL_HOME is full: " err
grep -F 'free; free some space, for example with "jobctl prune --keep 100", and try again' err
touch end
wait_for "the rank of job 4 ends" test -e ended
said_more 10
[ "$(daemon_answers)" = "$daemon" ]
[ "$(jobctl status -aq | wc -l)" = 5 ]
job_is 4 state running
job_is 5 state pending
tells_room() { jobctl why 4 | tr -s '\n ' '  ' | grep -F "stored when there is room: the disk of $JOBCTL_HOME is full: "; }
wait_for "why tells of the disk" tells_room

# What it said to do.
jobctl prune --keep 0 --yes >pruned
grep '^2 jobs removed' pruned
wait_for "the end of job 4 is stored" job_is 4 result succeeded
jobctl wait 5

# No room for an agent to start, more often than retry.max: no failure of the job.
left=$(df -B 1 --output=avail disk | tail -n 1)
head -c $((left - 3000000)) /dev/zero >>disk/rest # job 3 never finds it full again
jobctl submit -q short.yaml --set 'retry.backoff=0.05s..0.1s'
wait_for 'job 6 is in attempt 6' last_event 6 kind=placed attempt=6
events_of 6 kind=start_failed text | head -n 1 | grep 'cannot make the spool .*: No space left on device'
rm disk/rest
jobctl wait 6
touch enough
jobctl wait 3
[ "$(jobctl submit --wait -q short.yaml)" = 7 ]
wait_for "room is kept again" test -s "$JOBCTL_HOME/reserve"
for id in 3 4 5; do
    [ "$(job_field $id attempt)" = 1 ]
    for kind in placed generation_started rank_exited attempt_ended done; do
        [ "$(events_of $id kind=$kind | wc -l)" = 1 ]
    done
done
[ "$(events_of 3 kind=warning text | grep -c "the disk of $JOBCTL_HOME/jobs/3/1 is full: events are kept in memory")" = 1 ]
events_of 3 kind=warning text | grep 'has space again, after [0-9]* s; [0-9]* bytes of output were lost'
grep '^--- [0-9]* bytes of output lost: disk full ---$' "$JOBCTL_HOME/jobs/3/1/rank0.log"
tail -n 1 "$JOBCTL_HOME/jobs/3/1/rank0.log" | grep "^line $(cat said),"
