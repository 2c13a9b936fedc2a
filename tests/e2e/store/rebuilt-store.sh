# SPDX-License-Identifier: Apache-2.0
# The store is lost, replaced by an older copy, and damaged, repeatedly, during a hundred jobs, some of them running:
# the next daemon reports it and takes the jobs over from their job.json, running jobs are found again, and at the end
# each job has succeeded and run exactly once. alone: a hundred jobs, and one must run beside another
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
taken_over() { # TEXT...: the daemon that starts says so; all jobs are there, and the long one runs as before
    code 0 jobctl status -a -n 1000
    tr -s ' \n' ' ' <err >said
    for text; do has "$text" said; done
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
rm -rf "$JOBCTL_HOME/snapshots"
taken_over "The store was lost; there is no copy of it; $jobs jobs were taken over from job.json"
code 0 jobctl doctor --json
json "[r['status'] for r in o['rows'] if r['check'] == 'store'] == ['warn']"

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
taken_over "The store was older than the jobs' directories; " ' were taken over from job.json'

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
taken_over 'The store was damaged, and is kept in ' 'it was replaced by its copy jobs-'
lacks 'taken over' said      # it was made at the stop
stage 60
wait_for 200 "more jobs ran" ran 60
stop_daemon KILL
flip "$db-wal"
taken_over
# The end: each once.
stage $jobs
code 0 jobctl wait 1-$jobs
code 0 jobctl status -a -n 1000 --json
json "sorted((j['id'], j['result'], j['attempt']) for j in o['jobs']) == [(n, 'succeeded', 1) for n in range(1, $jobs + 1)]"
for id in $(seq $jobs); do [ "$(cat "ran/$id")" = run ] || { echo "job $id ran again"; jobctl logs --events "$id"; exit 1; }; done
ends() { for id in $(seq $jobs); do events_of "$id" kind | grep -x -e attempt_ended -e done; done; }
! ends | uniq -d | grep . || exit 1
[ "$(events_of 1 kind=rebuilt | wc -l)" -ge 1 ]
stage $((jobs + 1))
code 0 jobctl submit -q --wait short.yaml
has $((jobs + 1)) out
sqlite3 "$db" 'pragma integrity_check' | grep -x ok
