#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An agent with another protocol version keeps training: status and why explain how to control it, the log reports it
# once, and it is neither contacted repeatedly nor replaced; a daemon of its version adopts it, and its spool is read
# after it has ended. The agent is ours behind a relay that changes the version in its messages; other differences are
# not simulated.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
log=$JOBCTL_HOME/daemon.log
cat >relay.py <<'PY'
import os, socket, struct, sys, threading
place, version = sys.argv[1], int(sys.argv[2])
os.chdir(place)
os.rename("agent.sock", "agent.real")
server = socket.socket(socket.AF_UNIX)
server.bind("agent.sock")
server.listen()
def pump(a, b):
    while data := a.recv(65536):
        b.sendall(data)
    b.shutdown(socket.SHUT_RDWR)
def speak(agent, controller):
    said = agent.makefile("rb")
    while len(header := said.read(8)) == 8:
        size, _, number = struct.unpack("<IHH", header)
        controller.sendall(struct.pack("<IHH", size, version, number) + said.read(size))
    controller.shutdown(socket.SHUT_RDWR)
def quiet(work, *ends):
    try:
        work(*ends)
    except OSError:
        pass
tries = 0
while True:
    controller, agent = server.accept()[0], socket.socket(socket.AF_UNIX)
    tries += 1
    open("tries", "w").write(str(tries))
    agent.connect("agent.real")
    for work, ends in ((pump, (controller, agent)), (speak, (agent, controller))):
        threading.Thread(target=quiet, args=(work, *ends), daemon=True).start()
PY
cat >job.yaml <<YAML
run: touch $WORK/began; until [ -e $WORK/go ]; do sleep 0.01; done; echo "it ended"
resources: {ranks: 1, cpus: 1, gpus: 0}
YAML
says() { tr -s ' \n' ' ' <out | grep -q "$1"; } # its lines are wrapped
told() { code 0 jobctl why 1 && says 'uses protocol version 77'; }

for end in adopted spooled; do
    code 0 jobctl submit -q job.yaml
    wait_for "the job runs" test -e began
    agent=$(agent_pid 1 1) rank=$(last_event 1 kind=generation_started pids)
    daemon=$(daemon_pid)
    kill -KILL "$daemon"
    wait_for "the end of the daemon" ended "$daemon"
    rm "$log"
    python3 relay.py "$JOBCTL_HOME/jobs/1/1" 77 &
    relay=$!
    trap 'kill $relay 2>/dev/null || true' EXIT
    wait_for "the relay" test -S "$JOBCTL_HOME/jobs/1/1/agent.real"
    begin=$SECONDS
    code 0 jobctl daemon --detach
    wait_for "the agent is told apart" told
    says 'this side [0-9]*: its job keeps running; only the jobctl that started it can control it: stop this daemon (jobctl daemon stop)'
    code 0 jobctl status 1
    says 'only the jobctl that started it can control it'
    [ "$(grep -c 'uses protocol version' "$log")" = 1 ]
    [ "$(cat "$JOBCTL_HOME/jobs/1/1/tries")" -le $((3 + (SECONDS - begin) / 3)) ]    # one in three seconds
    [ "$(job_field 1 state) $(job_field 1 attempt)" = "running 1" ]
    alive "$agent"
    alive "$rank"

    if [ $end = adopted ]; then     # by a daemon that speaks as it does
        stop_daemon
        kill $relay
        mv "$JOBCTL_HOME/jobs/1/1/agent.real" "$JOBCTL_HOME/jobs/1/1/agent.sock"
        code 0 jobctl daemon --detach
        wait_for "it is adopted" grep -q 'agent connected' "$log"
        touch go
    else                            # it ends unheard
        touch go
        wait_for "the end of the attempt" grep -q attempt_ended "$JOBCTL_HOME/jobs/1/1/agent.log"
        kill -KILL "$agent"
        kill $relay
    fi
    code 0 jobctl wait 1 --timeout 60
    [ "$(job_field 1 attempt) $(job_field 1 generation)" = "1 1" ]
    code 0 jobctl logs 1
    has 'it ended' out
    wait_for "the end of the agent" ended "$agent"
    stop_daemon
    rm -r "$JOBCTL_HOME" began go
done
