#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# There is one daemon, however many commands need it at once; its state is private, it reports when it is ready, and
# jobs survive its end.
. "$TOP/tests/e2e/wait.sh"
cd "$WORK"
version() { curl -s --max-time 10 --unix-socket "$JOBCTL_HOME/jobctl.sock" http://jobctl/v1/version; }
pid() { daemon_answers; }

# Twenty commands at once, and nothing there yet but a directory that others may read: they may no more.
mkdir -m 755 "$JOBCTL_HOME"
for i in $(seq 20); do
    (jobctl version >/dev/null; jobctl status --json >"status.$i") &
done
wait
for i in $(seq 20); do grep -q '"jobs"' "status.$i"; done
[ "$(grep -c ' serves ' "$JOBCTL_HOME/daemon.log")" = 1 ] || { cat "$JOBCTL_HOME/daemon.log"; exit 1; }
[ "$(stat -c %a "$JOBCTL_HOME")" = 700 ]
[ "$(stat -c %a "$JOBCTL_HOME/jobctl.sock")" = 600 ]
[ "$(stat -c %a "$JOBCTL_HOME/jobs.db")" = 600 ]

# hears USER DIRECTORY SOCKET: what that user hears there, were it let in by all modes of files
hears() {
    chmod 711 "$2"
    chmod 666 "$2/$3"
    python3 - "$@" <<'PY'
import os, socket, sys
user = int(sys.argv[1])
os.chdir(sys.argv[2])
if user != os.getuid():
    os.setgroups([]), os.setgid(user), os.setuid(user)
s = socket.socket(socket.AF_UNIX)
s.settimeout(20)
s.connect(sys.argv[3])
try:
    s.sendall(b"GET /v1/version HTTP/1.1\r\nHost: jobctl\r\n\r\n")
    said = s.recv(100)
    print(said.split()[1].decode() if said[:4] == b"HTTP" else "something" if said else "nothing")
except ConnectionError:
    print("nothing")
PY
    chmod 600 "$2/$3"
    chmod 700 "$2"
}
[ "$(hears "$(id -u)" "$JOBCTL_HOME" jobctl.sock)" = 200 ]
[ "$(id -u)" != 0 ] || [ "$(hears 65534 "$JOBCTL_HOME" jobctl.sock)" = 403 ]

# A second one in the foreground is refused, --detach finds the first.
first=$(pid)
rc=0
jobctl daemon 2>refused || rc=$?
[ $rc = 3 ]
grep -q 'already running' refused
jobctl daemon --detach
[ "$(pid)" = "$first" ]

# SIGTERM: the daemon ends, the job does not; the next one goes on with it.
printf 'run: until [ -e go ]; do sleep 0.02; done; echo went on\n' >job.yaml
id=$(jobctl submit job.yaml -q)
wait_for "job $id runs" job_is "$id" state running
kill -TERM "$first"
wait_for "daemon $first ends" ended "$first"
[ ! -e "$JOBCTL_HOME/jobctl.sock" ]
agent=$(agent_pid "$id" 1)
alive "$agent"
dir=$JOBCTL_HOME/jobs/$id/1
[ "$(hears "$(id -u)" "$dir" agent.sock)" = something ]
[ "$(id -u)" != 0 ] || [ "$(hears 65534 "$dir" agent.sock)" = nothing ]
touch go
jobctl wait "$id" --timeout 30
[ "$(jobctl logs "$id")" = "went on" ]
job_is "$id" attempt 1

# Ready is a message. A socket and a lock left by a crash are in nobody's way.
kill -KILL "$(pid)"
mkfifo ready
jobctl daemon --ready-fd 7 7>ready 2>foreground &
[ "$(head -n 1 ready)" = ready ]
[ "$(pid)" = $! ]
kill -TERM $!
wait $!
grep -q stopped foreground

# Whoever may write where our state is could make us run commands.
chmod 777 "$JOBCTL_HOME"
rc=0
jobctl status 2>refused || rc=$?
[ $rc = 4 ] || { cat refused; exit 1; }
grep -q "chmod 700 $JOBCTL_HOME" refused
chmod 700 "$JOBCTL_HOME"
jobctl status -a | grep -q succeeded
