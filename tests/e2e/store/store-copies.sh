# SPDX-License-Identifier: Apache-2.0
# The store is copied daily and at each clean stop; three copies are kept. A lost store is replaced by its newest intact
# copy, and newer state is taken over from job.json. Removed jobs stay removed, and no id is reused.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
db=$JOBCTL_HOME/jobs.db copies=$JOBCTL_HOME/snapshots
printf 'name: one\nrun: echo hello\n' >one.yaml
said() { tr -s ' \n' ' ' <err >said; has "$1" said; }

# None of an empty store; with the stop after the first job there is one, readable by its owner alone.
code 0 jobctl status
stop_daemon
[ -z "$(ls "$copies")" ]
code 0 jobctl submit -q --wait one.yaml
for day in 01 02 03; do echo old >"$copies/jobs-2020-01-$day.db"; done
stop_daemon
newest=$(ls "$copies" | tail -n 1)
[ "$(ls "$copies" | tr '\n' ' ')" = "jobs-2020-01-02.db jobs-2020-01-03.db $newest " ]
[ "$(stat -c %a "$copies/$newest")" = 600 ]
[ "$(sqlite3 "$copies/$newest" 'pragma integrity_check; select count(*) from jobs')" = $'ok\n1' ]

# A daemon that starts makes one where there is none of the day.
rm "$copies/$newest"
code 0 jobctl status
wait_for "a copy" says 'copied the store to' cat "$JOBCTL_HOME/daemon.log"
newest=$(ls "$copies" | tail -n 1)

# The store is lost: job 1 is of the copy, with its history; job 2 is of its directory. Two damaged copies, which are
# newer, are passed over: one is no database; all rows of the other can be read, but an index lacks them.
code 0 jobctl submit -q --wait one.yaml
stop_daemon KILL
rm -f "$db"*
head -c 5000 /dev/urandom >"$copies/jobs-2999-01-01.db"
cp "$copies/$newest" "$copies/jobs-2998-01-01.db"
sqlite3 "$copies/jobs-2998-01-01.db" "pragma writable_schema = on;
    update sqlite_schema set sql = 'CREATE INDEX attempts_ended ON attempts(job)' where name = 'attempts_ended'"
sqlite3 "$copies/jobs-2998-01-01.db" 'pragma integrity_check' | grep 'missing from index'
code 0 jobctl status -a
said "The store was lost; it was replaced by its copy $newest; 1 job was taken over from job.json, and their latest events, curves and notes"
code 0 jobctl status -a --json
json "[(j['id'], j['result']) for j in o['jobs']] == [(2, 'succeeded'), (1, 'succeeded')]"
[ "$(events_of 1 kind=attempt_ended | wc -l)" = 1 ]
[ "$(events_of 2 kind | tr '\n' ' ')" = "submitted rebuilt " ]
jobctl why 2 | tr -s ' \n' ' ' >why
has "The store had lost this job's events 2 to" why
rm "$copies"/jobs-299*

# Removed since the copy: they stay removed though the store that knew is lost, and their ids are used no more.
stop_daemon
code 0 jobctl status
code 0 jobctl remove 1-2
stop_daemon KILL
rm -f "$db"*
code 0 jobctl status -a -q
empty out
code 0 jobctl submit -q --wait one.yaml
has 3 out

# The same without any copy.
code 0 jobctl remove 3
stop_daemon KILL
rm -rf "$db"* "$copies"
code 0 jobctl submit -q --wait one.yaml
has 4 out
