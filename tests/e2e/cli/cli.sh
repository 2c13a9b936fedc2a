# SPDX-License-Identifier: Apache-2.0
# The command line: wrong calls, JSON, pipes, colour, ids, and every command that changes a job.
cd "$WORK"
. "$TOP/tests/e2e/expect.sh"

# Wrong calls: exit 2 and a sentence; no daemon is started for them.
code 2 jobctl kill 1
has 'unknown command "kill"; did you mean cancel?' err
code 2 jobctl events 1
has 'unknown command "events"; did you mean logs --events?' err
code 2 jobctl stauts
has "did you mean status?" err
code 2 jobctl submit
code 2 jobctl submit a.yaml b.yaml
has "cannot read a.yaml" err
for command in submit plan verify-data; do
    code 2 jobctl $command no-such-file.yaml
    has "cannot read no-such-file.yaml: No such file" err
done
code 2 jobctl status --al
has "did you mean --all?" err
code 2 jobctl status --number=x
code 2 jobctl help nonsense
code 2 jobctl completions tcsh
[ ! -e "$JOBCTL_HOME" ]
code 0 jobctl
[ "$(grep -c '^  [a-z]' out)" -le 20 ]
for word in Start Watch Explain Change Machines 'Set up'; do has "$word" out; done
lacks relay out
code 0 jobctl help --all
has "93 retry limit" out
has "  prune " out
for word in verify-data verify-resume; do has "  $word " out; done
for word in relay render completions; do lacks "  $word " out; done
code 0 jobctl --help
code 0 jobctl submit --help
has "--dry-run" out
code 0 jobctl help spec
has "checkpoint" out
lacks "eps_2" out
[ "$(grep -c '^  ' out)" -lt 70 ]
code 0 jobctl help spec --all
has "eps_2" out
code 0 jobctl help spec lr
has "peak learning rate" out
has "        lr: 1.0e-4" out
code 2 jobctl help spec train.optimiser.lr
has "did you mean train.optimizer.lr?" err
code 2 jobctl help spec stpe
has "did you mean hang.step?" err
code 0 jobctl help glossary
has "flight page" out
lacks "|" out
code 0 jobctl version
has "daemon not running" out
for shell in bash zsh fish; do
    code 0 jobctl completions $shell
    has "submit" out
done
jobctl completions bash | bash -n

# Jobs to play with: the first takes every slot, so that others stay pending.
cpus=$(nproc)
printf 'name: long\nrun: "echo up; sleep 600"\nresources: {cpus: %s}\n' "$cpus" >long.yaml
printf 'name: short\nrun: echo short\nresources: {cpus: %s}\n' "$cpus" >short.yaml
code 0 jobctl submit -q long.yaml
[ "$(cat out)" = 1 ]
wait_for "job 1 runs" job_is 1 state running
code 0 jobctl submit -q short.yaml
code 0 jobctl submit -q --hold short.yaml
code 0 jobctl submit -q --set priority=5 --set name=urgent short.yaml
code 0 jobctl submit -q --set 'after=[4]' --set name=later short.yaml

# One JSON value, the same keys for every job.
code 0 jobctl status --json
json 'len(o["jobs"]) == 5'
json 'all(set("id name state result reason attempt generation step steps loss samples_per_s goodput eta_s checkpoint exit_code held priority after retry_of submitted_at started_at ended_at phase np".split()) <= set(j) for j in o["jobs"])'
JOBCTL_OUTPUT=json code 0 jobctl why 2
json '"text" in o and o["job"]["id"] == 2'
code 3 jobctl show --json 99
json 'o["error"]["code"] == "not_found"'
code 2 jobctl submit --json no-such-file.yaml
json 'o["error"]["code"] == "usage"'
code 0 jobctl logs --events --json 1
json 'o["events"][0]["kind"] == "submitted"'
code 0 jobctl nodes --json
json 'len(o["nodes"]) == 1'
code 0 jobctl version --json
json 'o["daemon"]["pid"] > 0'

# Ids, ranges, names, last.
code 0 jobctl status -q 1-3
[ "$(tr '\n' ' ' <out)" = "1 2 3 " ]
code 0 jobctl status -q 3,1-2 urgent
[ "$(tr '\n' ' ' <out)" = "3 1 2 4 " ]
code 0 jobctl status -q last
[ "$(cat out)" = 5 ]
code 3 jobctl status 77
has "job 77 does not exist" err
code 3 jobctl show nobody
for name in ../../etc '' .. a/b; do
    code 3 jobctl show "$name"
    has "no job is named '$name'" err
    code 3 jobctl cancel "$name"
    has "no job is named '$name'" err
done
code 2 jobctl status 3-1
code 2 jobctl status -o id,nmae
has "did you mean name?" err
code 0 jobctl status -o id,status,priority 4
has "PRIORITY" out

# Why each one waits.
code 0 jobctl why 2
has "pending" out
code 0 jobctl why 3
has "held" out
code 0 jobctl why 5
has "4" out

# Not in this state: exit 3.
code 3 jobctl hold 1
code 3 jobctl retry 1
code 3 jobctl checkpoint 2
code 3 jobctl checkpoint 1
has 'job 1 is a `run:` command whose spec has no checkpoint_signal: add checkpoint_signal: SIGUSR1 to the spec' err
code 3 jobctl logs 1 --rank 7
has "job 1 has only ranks 0 to 0, not 7" err
code 2 jobctl status --frob
has "unknown option --frob; --help lists the options" err
code 124 jobctl wait 1 --timeout 0.3
code 124 jobctl wait 1 --timeout 1

# One that has not begun: nothing of attempts; its log says why it is empty.
code 0 jobctl show 2
! grep -q '^  \(attempt\|generation\|priority\|time\) ' out || exit 1
code 0 jobctl logs 2
has "no output yet; to see why: jobctl why 2" err

# Orders.
code 0 jobctl hold 2
code 0 jobctl hold --off 3
code 0 jobctl cancel 1 --reason "enough seen"
code 3 jobctl wait 1 --timeout 60
code 0 jobctl why 1
has "enough seen" out
code 0 jobctl wait 3-5 --timeout 60
# urgent went first, later waited for it, and the held one still waits
python3 - <<'PY'
import json, subprocess
jobs = {j["id"]: j for j in json.loads(subprocess.check_output(["jobctl", "status", "--json", "1-5"]))["jobs"]}
assert jobs[4]["started_at"] <= jobs[3]["started_at"], jobs
assert jobs[5]["started_at"] >= jobs[4]["ended_at"], jobs
assert jobs[2]["state"] == "pending" and jobs[2]["held"], jobs[2]
PY
code 0 jobctl hold --off 2
code 0 jobctl wait 2 --timeout 60
code 3 jobctl cancel 2
code 0 jobctl retry 1
has "continues from the checkpoints of" out
wait_for "job 6 runs" job_is 6 state running
code 0 jobctl cancel 6 --now
code 3 jobctl wait 6 --timeout 60

# A drill of a command; Ctrl-C ends it at once.
jobctl drill long.yaml >drill.out 2>drill.err &
drill=$!
wait_for "the drill has a job" matches . jobctl status -q long-drill
wait_for "the drill does harm" grep '^FAULT' drill.out
kill -TERM $drill
code 130 wait $drill
has "interrupted: the copy was cancelled" drill.err
jobctl status -a --json >out
json '[j["result"] for j in o["jobs"] if j["name"] == "long-drill"] == ["cancelled"]'

# Nobody reads on: no noise, and no failure of ours.
jobctl status -a | true
jobctl help spec 2>err | head -n 1 >/dev/null
empty err
code 4 bash -c 'jobctl help spec >/dev/full'

# Colour only on a terminal, and never with NO_COLOR; other character sets get theirs.
cat >on_tty.py <<'PY'
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
out = b""
while True:
    try:
        piece = os.read(fd, 65536)
    except OSError:
        break
    if not piece:
        break
    out += piece
os.waitpid(pid, 0)
sys.stdout.buffer.write(out)
PY
esc=$(printf '\033')
jobctl status -a | { ! grep -q "$esc"; }
TERM=xterm python3 on_tty.py jobctl status -a | grep -q "$esc"
TERM=xterm NO_COLOR=1 python3 on_tty.py jobctl status -a | { ! grep -q "$esc"; }
TERM=dumb python3 on_tty.py jobctl status -a | { ! grep -q "$esc"; }
COLUMNS=40 TERM=dumb python3 on_tty.py jobctl status -a | tr -d '\r' | awk 'length > 40 {bad = 1; print} END {exit bad}'
printf 'run: echo "gr\303\274\303\237e"\nresources: {cpus: 1}\n' >utf8.yaml
LC_ALL=C.UTF-8 TERM=xterm python3 on_tty.py jobctl submit --follow utf8.yaml >out
has "succeeded" out
LC_ALL=C TERM=xterm python3 on_tty.py jobctl why last | { ! grep -qP '[\x80-\xff]'; }

# Forty commands at once start one daemon.
stop_daemon
pids=
for _ in $(seq 40); do
    jobctl status -a -q >/dev/null & pids="$pids $!"
done
for p in $pids; do wait "$p"; done
[ "$(for d in /proc/[0-9]*; do
    tr '\0' '\n' <"$d/environ" 2>/dev/null | grep -qxF "JOBCTL_HOME=$JOBCTL_HOME" || continue
    tr '\0' ' ' <"$d/cmdline"; echo
done 2>/dev/null | grep -c '[j]obctl daemon')" = 1 ]
