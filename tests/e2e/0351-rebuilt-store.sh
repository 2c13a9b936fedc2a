# SPDX-License-Identifier: Apache-2.0
# The store is lost, replaced by an older copy, and damaged, again and again in the middle of a hundred jobs, with some
# running: the daemon says so and leaves the jobs alone, `jobctl doctor --repair` makes the store anew, running jobs
# are adopted, and at the end each job has succeeded once and has run once.
# alone: a hundred jobs, and one must run beside another
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
[ "$(nproc)" -ge 2 ] || { echo "one job must run beside another"; exit 77; }
db=$JOBCTL_HOME/jobs.db
jobs=100
mkdir ran
# A short job counts its runs, and ends when the stage has come to its number; the long one when all have.
sed "s|HERE|$WORK|" >short.yaml <<'YAML'
name: short
run: |
  echo run >>HERE/ran/$JOBCTL_JOB_ID
  until [ "$(cat HERE/stage)" -ge "$JOBCTL_JOB_ID" ]; do sleep 0.05; done
resources: {cpus: 1}
retry: {max: 0}
YAML
stage() { echo "$1" >stage.new && mv stage.new stage; }
ran() { [ "$(ls ran | wc -l)" -ge "$1" ]; }
repaired() { # TEXT...: after a repair, which says so, all jobs are there, and the long one runs as before
    code 0 jobctl doctor --repair
    for text; do has "$text" out; done
    has "The new one has $jobs jobs" out
    lacks 'Not changed' out
    empty err
    code 0 jobctl status -a -n 1000 -q
    [ "$(wc -l <out)" = $jobs ]
    wait_for "the long job runs" job_is 1 state running
    job_is 1 attempt 1
    alive "$agent"
}

stage 1
sed "s/^name: .*/name: long/; s/-ge [^]]*/= $jobs /" short.yaml >long.yaml
code 0 jobctl submit -q long.yaml
python3 - "$JOBCTL_HOME/jobctl.sock" $((jobs - 1)) <<'END'
import http.client, json, os, socket, sys
class Daemon(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(sys.argv[1])
daemon = Daemon("jobctl")
for _ in range(int(sys.argv[2])):
    daemon.request("POST", "/v1/jobs", json.dumps({"spec": open("short.yaml").read(), "cwd": os.getcwd()}))
    answer = daemon.getresponse()
    assert answer.status == 201, answer.read()
    answer.read()
END
wait_event 1 kind=generation_started
agent=$(agent_pid 1 1)

# Lost, with a daemon that goes on for a while on the file that is no more.
stage 8
wait_for 200 "some jobs ran" ran 8
rm "$db"*
stage 16
wait_for 200 "more jobs ran" ran 16
stop_daemon KILL
code 0 jobctl status
has 'a directory, but no row in the store' err
has 'None of these was changed' err
code 0 jobctl status -a -q
empty out
code 3 jobctl cancel 1
has 'is not in the store, but its directory is there: run `jobctl doctor --repair`' err
has "$jobs jobs (1-$jobs): a directory, but no row in the store" state/daemon.log
code 0 jobctl doctor --json
json "[r['status'] for r in o['rows'] if r['check'] == 'store'] == ['warn']"
gone "$JOBCTL_HOME/snapshots/jobs-$(date -u +%F).db"
repaired 'The store was sound.' "$jobs came from the directories"

# An older copy: jobs that are over wait in it.
python3 - "$db" <<'END'
import sqlite3, sys
sqlite3.connect(sys.argv[1]).backup(sqlite3.connect("older.db"))
END
stage 32
wait_for 200 "more jobs ran" ran 32
stop_daemon KILL
rm -f "$db"*
cp older.db "$db"
code 0 jobctl status
has 'more events in the directory than in the store' err
code 3 jobctl cancel 20
has 'job 20 is left alone: its directory has more events than the store' err
stop_daemon KILL
repaired 'The store was sound.' 'were brought up to date from the directories'

# Flipped bytes: in the file, in its log.
stage 48
wait_for 200 "more jobs ran" ran 48
flip() { python3 - "$@" <<'END'
import random, sys
for path in sys.argv[1:]:
    with open(path, "r+b") as f:
        data = bytearray(f.read())
        for at in random.sample(range(len(data)), max(1, len(data) // 1000)):
            data[at] ^= 1 << random.randrange(8)
        f.seek(0)
        f.write(data)
END
}
stop_daemon
flip "$db"
repaired 'The store was damaged.' 'The old store is in'
stage 60
wait_for 200 "more jobs ran" ran 60
stop_daemon KILL
flip "$db-wal"
repaired 'The store was'
# The end: each once.
stage $jobs
code 0 jobctl wait 1-$jobs
code 0 jobctl status -a -n 1000 --json
json "sorted((j['id'], j['result'], j['attempt']) for j in o['jobs']) == [(n, 'succeeded', 1) for n in range(1, $jobs + 1)] and o['store'] == ''"
for id in $(seq $jobs); do [ "$(cat "ran/$id")" = run ] || { echo "job $id ran again"; jobctl logs --events "$id"; exit 1; }; done
ends() { for id in $(seq $jobs); do events_of "$id" kind | grep -x -e attempt_ended -e done; done; }
[ "$(ends | uniq -c | sort -u | xargs)" = '1 attempt_ended 1 done' ]
[ "$(events_of 1 kind=rebuilt | wc -l)" -ge 1 ]
stage $((jobs + 1))
code 0 jobctl submit -q --wait short.yaml
has $((jobs + 1)) out
sqlite3 "$db" 'pragma integrity_check' | grep -x ok
