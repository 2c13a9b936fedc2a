# SPDX-License-Identifier: Apache-2.0
# The cause is reported instead of "bug", 503 or the end of daemon.log: a damaged store, a damaged row, a log offset
# that the kernel refuses, a start error longer than a line. A daemon does not run on a damaged store: it replaces it by
# a copy.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
printf 'name: one\nrun: echo hello\n' >one.yaml
db=$JOBCTL_HOME/jobs.db
store() { sqlite3 "$db" "pragma foreign_keys=off; $1"; }
# overwrite FILE FROM: every byte from there on, in place
overwrite() { dd if=/dev/urandom of="$1" bs=4096 seek="$2" conv=notrunc count="$(($(stat -c %s "$1") / 4096 - $2))" status=none; }

code 0 jobctl submit -q --wait one.yaml

# Rows whose text is none: each is told as damaged, the others are shown.
store "update jobs set name = x'ff61'"
code 0 jobctl status -a
has 'its row in jobs.db is damaged' out
code 0 jobctl show 1
has 'its row in jobs.db is damaged' out
store "update jobs set name = 'one'; update events set kind = x'ff' where seq = 3; update events set body = x'ff' where seq = 4"
code 0 jobctl logs --events 1
has 'this event is damaged in the store' out
code 0 jobctl why 1

# An offset after the end of a log is its end.
curl -s --unix-socket "$JOBCTL_HOME/jobctl.sock" 'http://j/v1/jobs/1/logs?offset=9223372036854775807' >out
json "o['data'] == '' and o['size'] == 6 and o['next_offset'] == 2**63 - 1"

# A store that is checked after an unclean end, and not after a clean one.
stop_daemon
code 0 jobctl submit -q --wait one.yaml
lacks 'did not stop cleanly' state/daemon.log
stop_daemon KILL
code 0 jobctl status
has 'did not stop cleanly; checking' state/daemon.log
stop_daemon KILL
overwrite "$db" 2
rm -f "$db"-wal "$db"-shm
code 0 jobctl status
tr -s ' \n' ' ' <err >said
has 'The store was damaged, and is kept in ' said
has 'it was replaced by its copy jobs-' said
has "the store $db is damaged (" state/daemon.log
code 0 jobctl status -a
has succeeded out

# Damage that shows while the daemon runs stops it; the next start checks all of the store, and finds all jobs again.
code 0 jobctl submit -q --wait one.yaml
stop_daemon
code 0 jobctl status -a
overwrite "$db" 1
daemon=$(daemon_pid)
sqlite3 "$db" 'pragma wal_checkpoint' || true
jobctl submit -q one.yaml >out 2>err || has 'the job was not submitted: the store' err
wait_for "the daemon stops" ended "$daemon"
has 'stopping: the store' state/daemon.log
code 0 jobctl status -a --json
json "o['store'].startswith('the store was damaged') and all(j['result'] == 'succeeded' for j in o['jobs'])"

# A start error of more than a line is told whole.
mkdir -p far
for _ in $(seq 24); do far=${far:-far}/long-name-of-a-directory; done
mkdir -p "$far"

code 4 env JOBCTL_HOME="$WORK/$far" jobctl status
has 'cannot start the daemon: cannot open the store' err
lacks 'the end of' err
