# SPDX-License-Identifier: Apache-2.0
# A script that saves on a stop request gets time to do so, however it was started: below a shell, in a pipeline, by
# nohup, in a virtual environment. Its workers live until it has saved. One that ignores the signal is killed after the
# grace period; a user-defined signal and its recipients are respected; a checkpoint can be requested.
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
. "$TOP/tests/e2e/expect.sh"

# Saves in a second when asked; its workers must live until then, as those of a DataLoader.
cat >"$WORK/save.py" <<'PY'
import os, signal, sys, time
name = sys.argv[1]
asked = []
for s in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
    signal.signal(s, lambda number, frame: asked.append(signal.Signals(number).name))
workers = []
for i in range(2):
    pid = os.fork()
    if pid == 0:
        for s in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
            signal.signal(s, signal.SIG_DFL)
        time.sleep(1000)
    workers.append(pid)
print("ready", flush=True)
open(name + ".ready", "w").close()
while not asked:
    time.sleep(0.01)
for i in range(10):                     # a save takes a while, and prints
    print("saving", i, flush=True)
    time.sleep(0.1)
dead = [w for w in workers if os.waitpid(w, os.WNOHANG)[0]]
with open(name + ".tmp", "w") as f:
    f.write(f"{asked[0]}, {len(dead)} workers died")
os.rename(name + ".tmp", name + ".saved")
for w in workers:
    os.kill(w, signal.SIGKILL)
PY
# A virtual environment, as `python3 -m venv` makes it
mkdir -p "$WORK/venv/bin"
ln -s "$(command -v python3)" "$WORK/venv/bin/python"
echo "PATH=$WORK/venv/bin:\$PATH" >"$WORK/venv/bin/activate"

# starts NAME COMMAND [LINE...]: a job that runs the shell text, and is ready
starts() {
    { printf 'name: %s\nworkdir: %s\n' "$1" "$WORK"; printf '%s\n' "${@:3}"; printf 'run: |\n'; sed 's/^/  /' <<<"$2"; } \
        >"$WORK/$1.yaml"
    job=$(jobctl submit -q "$WORK/$1.yaml")
    wait_for "$1 to be ready" test -e "$WORK/$1.ready"
}
# saves NAME: cancelled, it has saved after the signal, and its workers lived so long
saves() {
    jobctl cancel "$job"
    code 3 jobctl wait "$job"
    [ "$(cat "$WORK/$1.saved")" = "${2:-SIGTERM}, 0 workers died" ] || { cat "$WORK/$1".*; jobctl logs "$job"; exit 1; }
}

starts plain 'python3 save.py plain'
saves plain
# A script with a trap for the signal: `bash -e` alone would end with the program below it.
starts trap 'trap "echo trapped >>trap.saved; exit 3" TERM
python3 save.py trap'
jobctl cancel "$job"
code 3 jobctl wait "$job"
grep -q trapped "$WORK/trap.saved"
starts shell 'echo begin
python3 save.py shell
echo end'
saves shell
starts pipe 'python3 save.py pipe 2>&1 | tee pipe.out'
saves pipe
grep -q 'saving 9' "$WORK/pipe.out"
starts nohup 'nohup python3 save.py nohup'
saves nohup
starts venv '. venv/bin/activate
(cd . && python save.py venv)'
saves venv

# A shell that has more to do is told when its program has ended.
starts more 'python3 save.py more
touch more.went-on
tail -f /dev/null'
saves more

# A trainer that starts others itself: they are its own business until it ends.
cat >"$WORK/launcher.py" <<'PY'
import signal, subprocess, sys
child = subprocess.Popen([sys.executable, "save.py", sys.argv[1]])
signal.signal(signal.SIGTERM, lambda number, frame: child.send_signal(number))
sys.exit(child.wait())
PY
starts launcher 'python3 launcher.py launcher'
saves launcher
# One that ends at once, and leaves a child that saves: the child is asked, and has the rest of the grace.
sed -i '/signal.signal/d' "$WORK/launcher.py"
starts careless 'python3 launcher.py careless'
saves careless

starts own 'python3 save.py own' 'stop_signal: SIGUSR1'
saves own SIGUSR1
# All at once, for those who want it: the workers die with it.
starts session 'python3 save.py session' 'stop_to: session'
jobctl cancel "$job"
code 3 jobctl wait "$job"
[ "$(cat "$WORK/session.saved")" = "SIGTERM, 2 workers died" ]

cat >"$WORK/deaf.py" <<'PY'
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open("deaf.new", "w") as f:
    f.write(str(os.getpid()))
os.rename("deaf.new", "deaf.ready")
time.sleep(1000)
PY
starts deaf 'python3 deaf.py
true' 'grace: 1s'
jobctl cancel "$job"
code 3 jobctl wait "$job"
ended "$(cat "$WORK/deaf.ready")"

cat >"$WORK/ask.py" <<'PY'
import os, signal, time
signal.signal(signal.SIGUSR1, lambda number, frame: open("asked.ckpt", "w").close())
open("ask.ready", "w").close()
while not os.path.exists("asked.ckpt"):
    time.sleep(0.01)
PY
starts ask 'python3 ask.py
true' 'checkpoint_signal: SIGUSR1'
jobctl checkpoint "$job"
jobctl wait "$job"
[ -e "$WORK/asked.ckpt" ]

# The machine is taken away in the middle of a save: it is completed, and the next attempt continues from it.
cat >"$WORK/preempted.py" <<'PY'
import os, signal, sys, time
os.makedirs(os.environ["JOBCTL_CKPT_DIR"], exist_ok=True)
state = os.path.join(os.environ["JOBCTL_CKPT_DIR"], "state")
if os.path.exists(state):
    os.rename(state, "preempted.resumed")
    sys.exit(0)
asked = []
signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
with open(state + ".tmp", "w") as f:
    f.write("step ")
    open("preempted.ready", "w").close()
    while not asked:
        time.sleep(0.01)
    time.sleep(0.5)
    f.write("42")
os.rename(state + ".tmp", state)
PY
starts preempted 'python3 preempted.py
touch preempted.went-on'
kill -TERM "$(agent_pid "$job" 1)"
code 0 jobctl wait "$job"
[ "$(cat "$WORK/preempted.resumed")" = "step 42" ]
[ "$(job_field "$job" attempt)" = 2 ]
