# SPDX-License-Identifier: Apache-2.0
# The daemon dies after it has stored a job's end, and before the job's job.json has it: the next daemon writes it
# there, so that a job taken over from job.json does not run again. The same if job.json or rows are damaged.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
db=$JOBCTL_HOME/jobs.db
jobs=3
file() { echo "$JOBCTL_HOME/jobs/$1/job.json"; }
state_in() { field state.state <"$(file "$1")"; }
printf 'name: once\nrun: "echo ran >>%s/ran$JOBCTL_JOB_ID; until [ -e %s/go$JOBCTL_JOB_ID ]; do sleep 0.05; done"\n' "$WORK" "$WORK" >once.yaml
for job in $(seq $jobs); do
    code 0 jobctl submit -q once.yaml
    wait_for "job $job runs" job_is "$job" state running
    wait_for "its job.json says so" matches running state_in "$job"
    cp "$(file "$job")" "older$job"
    touch "go$job"
    code 0 jobctl wait "$job"
done
touch go4 go5 go6
stop_daemon KILL
[ "$(state_in 1)" = done ]
cp older1 "$(file 1)"
code 0 jobctl status
[ "$(state_in 1)" = done ]

lose() { # the store and its copies: each job is there as before
    stop_daemon KILL
    rm -rf "$db"* "$JOBCTL_HOME/snapshots"
    code 0 jobctl status
    for job in $(seq $jobs); do
        job_is "$job" result succeeded
        [ "$(cat "ran$job")" = ran ]
    done
}
lose

# A digit in job.json: the store has it right, and writes it again.
stop_daemon KILL
sed -i 's/"exit_code":0/"exit_code":7/' "$(file 2)"
code 0 jobctl status
lose

# Rows of a job that waits are damaged: it is taken from job.json. Without that it ends, with a reason.
for job in 4 5; do code 0 jobctl submit -q --hold once.yaml; done
stop_daemon KILL
sqlite3 "$db" "update events set body = x'ff' where job in (4, 5)"
sed -i 's/"seq":/"seq":1/' "$(file 5)"
code 0 jobctl status
job_is 4 state pending
job_is 5 result failed
code 0 jobctl why 5
tr -s ' \n' ' ' <out >why
has 'its rows in jobs.db are damaged, and its job.json is missing or damaged' why
code 0 jobctl cancel 4
code 3 jobctl wait 4

# Neither a row nor a sound job.json: the job is not taken over, and status names it; its id is not used again.
stop_daemon KILL
rm -rf "$db"* "$JOBCTL_HOME/snapshots"
truncate -s -1 "$(file 3)"
sed -i 's/"seq":/"seq":1/' "$(file 2)"
code 0 jobctl status -a -q
[ "$(cat out | tr '\n' ' ')" = "4 1 " ]
code 0 jobctl status
tr -s ' \n' ' ' <err >said
has '3 jobs (2, 3, 5) were not taken over, because job.json is missing or damaged' said
for command in "why 3" "cancel 3" "logs 3"; do
    code 3 jobctl $command
    has "the record of job 3 is lost: the store does not have it, and its job.json is missing or damaged" err
done
code 3 jobctl why 9
has "job 9 does not exist" err
code 0 jobctl submit -q --hold once.yaml
has 6 out

# A damaged origin in spec.json of a job that waits: job.json says whose directory it is.
code 0 jobctl show 6
stop_daemon KILL
sed -i 's/"origin":"/"origin":"x/' "$JOBCTL_HOME/jobs/6/spec.json"
code 0 jobctl hold --off 6
code 0 jobctl wait 6 --timeout 60
