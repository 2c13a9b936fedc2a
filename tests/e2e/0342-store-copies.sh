# SPDX-License-Identifier: Apache-2.0
# A copy of the store each day, of which three are kept; events that a directory lacks are written with it.
# A lost store gets from the newest good copy what no directory has.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
db=$JOBCTL_HOME/jobs.db copies=$JOBCTL_HOME/snapshots
printf 'name: one\nrun: echo hello\n' >one.yaml
copied() { compgen -G "$copies/jobs-*.db"; }

day=$(date -u +%F)

# None of an empty store; with the next start after the first job there is one, readable by its owner alone.
code 0 jobctl submit -q --wait one.yaml
[ -z "$(ls "$copies")" ]
rm "$JOBCTL_HOME/jobs/1/events.jsonl"
stop_daemon
for day in 01 02 03; do echo old >"$copies/jobs-2020-01-$day.db"; done
code 0 jobctl status
wait_for "a copy" says 'copied the store to' cat "$JOBCTL_HOME/daemon.log"
newest=$(ls "$copies" | tail -n 1)
[ "$(ls "$copies" | tr '\n' ' ')" = "jobs-2020-01-02.db jobs-2020-01-03.db $newest " ]
[ "$(stat -c %a "$copies/$newest")" = 600 ]
[ "$(sqlite3 "$copies/$newest" 'pragma integrity_check; select count(*) from jobs')" = $'ok\n1' ]
[ "$(read_json each seq <"$JOBCTL_HOME/jobs/1/events.jsonl" | tail -n 1)" = "$(events_of 1 seq | tail -n 1)" ]

# Another start on the same day makes none.
stop_daemon
code 0 jobctl submit -q --wait one.yaml
[ "$(date -u +%F)" != "$day" ] || [ "$(grep -c 'copied the store to' "$JOBCTL_HOME/daemon.log")" = 1 ]

# The store is lost: job 1 is of the copy, whose directory tells nothing; job 2 is of its directory. Two damaged copies,
# which are newer, are passed over: one is no database; all rows of the other can be read, but an index lacks them.
stop_daemon
rm -f "$db"* "$JOBCTL_HOME/jobs/1/events.jsonl"
head -c 5000 /dev/urandom >"$copies/jobs-2999-01-01.db"
cp "$copies/$newest" "$copies/jobs-2998-01-01.db"
sqlite3 "$copies/jobs-2998-01-01.db" "pragma writable_schema = on;
    update sqlite_schema set sql = 'CREATE INDEX attempts_ended ON attempts(job)' where name = 'attempts_ended'"
sqlite3 "$copies/jobs-2998-01-01.db" 'pragma integrity_check' | grep 'missing from index'
code 0 jobctl doctor --repair
has 'The store was missing. The new one has 2 jobs.' out
has '1 came from the directories.' out
has "1 came from the snapshot $newest." out
lacks 'The old store' out
code 0 jobctl status -a --json
json "[(j['id'], j['result']) for j in o['jobs']] == [(2, 'succeeded'), (1, 'succeeded')]"

# Removed since the copy: it stays removed, though the store that knew is lost.
code 0 jobctl remove 1
stop_daemon
rm -f "$db"*
code 0 jobctl doctor --repair
has 'The new one has 1 job.' out

# Nothing to repair: nothing changes, and the old store is kept.
code 0 jobctl doctor --repair --json
json "o['store'] == 'sound' and o['rebuilt'] == 0 and o['advanced'] == 0 and o['left']['text'] == ''"
[ -f "$(field old <out)/jobs.db" ]
code 2 jobctl doctor --repair one.yaml
has 'takes no FILE' err
