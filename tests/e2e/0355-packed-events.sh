# SPDX-License-Identifier: Apache-2.0
# The events of finished jobs are packed a minute after their end: what commands say stays the same,
# a damaged one is named, and the repair takes it from the job's directory.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
db=$JOBCTL_HOME/jobs.db
hours_ago() { sqlite3 "$db" "update jobs set ended_ms = ended_ms - 7200000, started_ms = started_ms - 7200000"; }
packed() { [ "$(sqlite3 "$db" "select count(*) from jobs where packed = 1")" = "$1" ]; }
told() { # DIRECTORY: what the commands say of the jobs
    mkdir "$1"
    for id in 1 2; do
        code 0 jobctl events "$id" --json
        mv out "$1/events.$id"
        code 0 jobctl why "$id"
        mv out "$1/why.$id"
    done
}
printf 'name: good\nrun: echo hello\n' >good.yaml
printf 'name: bad\nrun: exit 3\nretry: {max: 1, backoff: 1s..1s}\n' >bad.yaml

code 0 jobctl submit -q --wait good.yaml
code 93 jobctl submit -q --wait bad.yaml
told before
[ "$(sqlite3 "$db" 'select count(*) from packed_events')" = 0 ]
stop_daemon

# Their jobs ended long ago.
hours_ago
code 0 jobctl status
wait_for "both are packed" packed 2
[ "$(sqlite3 "$db" 'select count(*) from events')" = 0 ]
told after
diff -r before after

# After a restart, too, and a new job beside them.
stop_daemon
code 0 jobctl submit -q --wait good.yaml
told again
diff -r before again

# A byte within: it is named, the other job and the daemon are well.
stop_daemon
sqlite3 "$db" "update packed_events set rows = cast(substr(rows, 1, 60) || x'00ff' || substr(rows, 63) as blob)
    where job = 1"
code 4 jobctl events 1
has 'the packed events of job 1 in the store are damaged (' err
has 'run `jobctl doctor --repair`' err
code 4 jobctl why 1
has 'the packed events of job 1 in the store are damaged (' err
code 0 jobctl events 2
code 0 jobctl status 1
stop_daemon
code 0 jobctl doctor --repair
code 0 jobctl events 1 --json
read_json each kind=done <out | grep succeeded
read_json each kind=done <before/events.1 >done.before
read_json each kind=done <out | diff - done.before
