#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The state of an earlier version is opened as it was left (tests/fixtures/README.md): its jobs are listed
# and explained, what its agents had spooled is applied once, a training goes on from its checkpoint and
# another from its mirror, an agent that still runs is adopted or told apart with a sentence, and what waited runs.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"

# Everything that this test reads from --json, and the words of today's version: they may be others tomorrow.
cat >read.py <<'PY'
import json, re
def o(call): return json.load(open("json/" + call))                 # what `said CALL` has heard
def jobs(): return {one["id"]: one for one in o("status -a")["jobs"]}
def origin(job): return o("show %d" % job)["spec"]["checkpoint"].get("origin", "")
def row(job): return o("show %d" % job)["job"]
def name(one): return one["name"]
def ended(one): return one["result"] or one["state"]
def attempt(one): return one["attempt"]
def generation(one): return one["generation"]
def step(one): return one["step"]
def held(one): return one["held"]
def after(one): return one["after"]
def priority(one): return one["priority"]
def exit_code(one): return one["exit_code"]
def retry_of(one): return one["retry_of"]
def causes(job): return [g["cause"] for a in o("show %d" % job)["attempts"] for g in a["generations"]]
def goodput(job): return dict(o("show %d" % job)["goodput"])
def goodput_sum(job): return sum(v for k, v in goodput(job).items() if k != "rank_s")
def goodput_all(job): return goodput(job)["rank_s"]
def checkpoints(job): return [c["step"] for c in o("show %d" % job)["checkpoints"]]
def drained(node): return {n["name"]: n.get("drained") for n in o("nodes")["nodes"]}[node]
def events(job): return o("events %d" % job)["events"]
def told(job): return [e for e in events(job) if e["source"] == "agent"]
def text(event): return event["text"]
def body(event): return json.dumps(event["body"])
def unknown(job):                                                   # events that nobody has words for
    return [e for e in events(job) if not text(e) or text(e) == e["kind"] not in ("submitted", "held", "released")]
def numbers(said): return re.findall(r"\d+(?:\.\d+)?", re.sub(r"\S*/\S*", "", said))     # not those of paths
def unsaid(fixture):                    # numbers of stored events that were told then, and are not told now
    then = json.load(open(fixture + "/events.json"))
    lost = [(job, old, text(e)) for job in then for old, e in zip(then[job], events(int(job)), strict=True)
            if set(numbers(old.replace("0.0s", ""))) - set(numbers(text(e)))]  # told in ms today
    for job, old, new in lost:
        print("job %s: '%s' is now '%s'" % (job, old, new))
    return lost
def resumes(job): return re.findall(r'"resume_step": ([1-9]\d*)', " ".join(map(body, told(job))))
PY
agent_refused='uses protocol version' # daemon.log, of an agent that is not understood
orphan_gone='the orphaned attempt'                 # daemon.log, of an agent that outlived its attempt
resumed='resumed: step'                     # a training's log

# said CALL...: keep the answers of `jobctl CALL --json`; holds CONDITION...: on them
mkdir json
said() {
    for call; do
        code 0 jobctl $call --json
        cp out "json/$call"
    done
}
holds() {
    python3 - "$@" <<'PY' || { cat "$JOBCTL_HOME/daemon.log"; exit 1; }
import sys
from read import *
wrong = [condition for condition in sys.argv[1:] if not eval(condition)]
for condition in wrong:
    print("not so:", condition)
    for call in re.findall(r"\((\d+)", condition):
        for kind in ("show ", "events "):
            try:
                print(kind + call, json.dumps(o(kind + call))[:4000])
            except OSError:
                pass
sys.exit(bool(wrong))
PY
}
# ends JOB [CODE]: it does, as wait says
ends() { code "${2:-0}" jobctl wait "$1" --timeout 90; }
newest_step() { ls "$1/checkpoints" | sed -n 's/^step-0*//p' | tail -n 1; }
log_has() { grep -q "$1" "$JOBCTL_HOME/daemon.log"; }
soon() { wait_for "$1" "${@:2}" || { cat "$JOBCTL_HOME/daemon.log"; exit 1; }; } # MESSAGE COMMAND...

check_jobs() { # as they were left: three are in the middle, and may be over by now
    code 0 jobctl status -a
    for name in finished failed cancelled two-nodes spooled running waiting held interrupted; do
        has "$name" out
    done
    code 0 jobctl logs 2
    has 'no luck' out
    code 3 jobctl show 4
    has 'removed' err
    for job in 1 2 3 5 6; do
        code 0 jobctl why $job
        [ "$(wc -c <out)" -gt 60 ]
        said "events $job"
    done
    said 'status -a' 'show 1' 'show 2' 'show 3' 'show 5' 'show 9' 'show 10'
    holds "[name(one) for _, one in sorted(jobs().items())] == ['finished', 'failed', 'failed', 'cancelled', \
                'two-nodes', 'spooled', 'running', 'waiting', 'held', 'interrupted']" \
        "[ended(jobs()[job]) for job in (1, 2, 3, 5, 6, 9, 10)] == ['succeeded', 'failed', 'succeeded', \
                'cancelled', 'cancelled', 'pending', 'pending']" \
        "not any(unknown(job) or len(events(job)) < 9 for job in (1, 2, 3, 5, 6))" \
        "unsaid('$fixture') == []" \
        "causes(1)[0] == 'hang_step' and causes(2) == ['user_exit'] and len(causes(1)) == 2" \
        "abs(goodput_sum(1) - goodput_all(1)) < 0.01 and goodput_all(1) > 0.5" \
        "exit_code(row(2)) == 93 and retry_of(row(3)) == 2 and step(row(5)) == $mirrored" \
        "after(row(9)) == [8] and held(row(10)) and priority(row(10)) == 7"
}
check_running() { # played by agent.py; what it says depends on the file running.go
    soon "the agent has been told something" test -s said
    grep -q launched said || { echo "the agent of $version is not adopted:"; cat said "$JOBCTL_HOME/daemon.log"; exit 1; }
    said 'show 8'
    holds "ended(row(8)) == 'running' and attempt(row(8)) == 1"
    touch here/running.go
    ends 8
    wait "$agent"
    grep -q 'acked 10' said
    ! grep -e 'cannot read' -e refused said || exit 1
    said 'show 8' 'events 8'
    holds "ended(row(8)) == 'succeeded' and attempt(row(8)) == 1 and generation(row(8)) == 2" \
        "len(told(8)) == 10 and not unknown(8)"
}
# It speaks a wire version that nobody knows: the job says so, the log does once, it is not asked again and
# again, and its spool is read when it has ended.
check_unknown() {
    soon "the agent is refused" log_has "$agent_refused 77"
    code 0 jobctl why 8
    tr -s ' \n' ' ' <out | grep -q "$agent_refused 77" || { cat out; exit 1; } # its lines are wrapped
    said 'show 8'
    holds "ended(row(8)) == 'running' and attempt(row(8)) == 1"
    sleep 1                                     # forty tries, when each is made at once
    [ "$(grep -c "$agent_refused" "$JOBCTL_HOME/daemon.log")" = 1 ]
    [ "$(grep -c refused said)" -le 8 ]
    touch here/running.go
    ends 8
    wait "$agent"
    grep -q spooled said
    ends 9
    ends 11
}
check_spooled() { # its agent died with all of it untold
    ends 7
    code 0 jobctl logs 7
    [ "$(grep -c '^generation' out)" = 2 ]
    said 'show 7' 'events 7'
    holds "ended(row(7)) == 'succeeded' and attempt(row(7)) == 1 and generation(row(7)) == 2" \
        "len(told(7)) == 10 and not unknown(7)"
}
check_waiting() {
    code 0 jobctl release 10
    ends 9
    ends 10
    code 0 jobctl logs 9
    has waited out
    code 0 jobctl logs 10
    has released out
}
check_interrupted() { # some steps after its last checkpoint, of which nobody has heard
    ends 11
    code 0 jobctl logs 11
    has "$resumed $saved" out
    said 'show 11' 'events 11'
    holds "ended(row(11)) == 'succeeded' and attempt(row(11)) == 2 and step(row(11)) == 80" \
        "80 in checkpoints(11) and resumes(11) == ['$saved'] and not unknown(11)" \
        "any(re.search(r'\\b$saved of 80', text(e)) for e in told(11))" \
        "sum('$(printf step-%08d "$saved")' in body(e) for e in told(11)) == 1" \
        "not any('has changed' in text(e) for e in events(11))" \
        "re.fullmatch('[0-9a-f]{32}', origin(11))"
    [ "$(field checkpoint.origin <"$JOBCTL_HOME/jobs/11/spec.json")" = "$(field spec.checkpoint.origin <"json/show 11")" ]
    grep -q "\"origin\":\"$(field spec.checkpoint.origin <"json/show 11")\"" "$JOBCTL_HOME/jobs/11/events.jsonl"
    [ "$(field origin <"$JOBCTL_HOME/jobs/11/checkpoints/origin.json")" = "$(field spec.checkpoint.origin <"json/show 11")" ]
    seq 80 >steps
    read_json each step <"$JOBCTL_HOME/jobs/11/checkpoints/metrics.jsonl" | cmp - steps
}
# Those that are done get an origin too, once the store is copied; not where spec.json is that of another job.
check_done() {
    soon "a job that failed has an origin" has_origin 2
    soon "a job that succeeded has an origin" has_origin 1
    [ "$(field checkpoint.origin <"$JOBCTL_HOME/jobs/1/spec.json")" = "$(jobctl show 1 --json | field spec.checkpoint.origin)" ]
    soon "job 3 is told" log_has "job 3 is of an earlier version, and .*/jobs/3/spec.json is not its spec: the job gets no origin"
    ! has_origin 3 || exit 1
}
has_origin() { jobctl show "$1" --json | field spec.checkpoint.origin | grep -qxE '[0-9a-f]{32}'; }
check_mirror() { # adopted as job 12
    ends 12
    code 0 jobctl logs 12
    has "$resumed $mirrored" out
    code 0 jobctl events 12
    [ "$(wc -l <out)" -gt 15 ]          # of before, too
    said 'show 12'
    holds "step(row(12)) == 100 and ended(row(12)) == 'succeeded'"
    grep -q '"token":2' mirror/cancelled/lease.json
}
check_machines() {
    code 0 jobctl nodes
    has '@pair' out
    said nodes
    holds "drained('gpu2') == 'a fan is broken' and not drained('gpu1') and not drained('alpha')"
    soon "the orphan is gone" log_has "$orphan_gone"
    [ ! -e "$JOBCTL_HOME/strays" ]
    [ ! -e "$JOBCTL_HOME/orphans" ]
    [ "$(sqlite3 "$JOBCTL_HOME/jobs.db" 'select count(*) from orphans')" = 0 ]
}
check_call() { # an agent finds in call.json where to call, and by which name
    mkdir -m 700 called
    cat >listen.py <<'PY'
import json, os, socket, sys
port = socket.create_server(("127.0.0.1", 0))
call = json.load(open(sys.argv[1] + "/call.json"))
call["port"] = port.getsockname()[1]
with open(os.open("called/call.json", os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
    json.dump(call, f)
port.settimeout(60)
heard, them = b"", port.accept()[0]
them.settimeout(60)
while call["name"].encode() not in heard:      # the first message of TLS tells whose key it is
    heard += them.recv(4096) or sys.exit("it hung up after %r" % heard)
PY
    python3 listen.py "$1" &
    local listener=$!
    soon "there is a call.json" test -s called/call.json
    JOBCTL_AGENT_NONCE=$(printf '0%.0s' $(seq 32)) jobctl-agent run --dir "$WORK/called" --job 12 --attempt 1 --away
    wait $listener
    kill -KILL "$(field pid <called/agent.json)"   # it waits for orders
}

open_home() { # FIXTURE: its home with a daemon, and the agent that still runs
    export XDG_CONFIG_HOME=$WORK/config
    python3 "$TOP/tests/fixtures/open_home.py" "$1" "$JOBCTL_HOME" "$WORK/here" "$WORK/mirror" "$WORK/config"
    python3 "$TOP/tests/fixtures/agent.py" "$1" "$JOBCTL_HOME/jobs/8/1" here/running.go said &
    agent=$!
    trap 'kill $agent 2>/dev/null || true' EXIT
    soon "the agent listens" test -S "$JOBCTL_HOME/jobs/8/1/agent.sock"
    sed -i 's/"name": *"[^"]*"/"name":"other"/' "$JOBCTL_HOME/jobs/3/spec.json"
    code 0 jobctl daemon --detach
}
close_home() {
    stop_daemon
    rm -rf "$JOBCTL_HOME" here mirror config called said json/*
}

for fixture in "$TOP"/tests/fixtures/*/; do
    saved=$(newest_step "$fixture/home/jobs/11") mirrored=$(newest_step "$fixture/mirror/cancelled")
    version=$(basename "$fixture")
    open_home "$fixture"
    check_jobs
    check_done
    code 0 jobctl adopt --yes mirror/cancelled
    check_running
    check_spooled
    check_waiting
    check_interrupted
    check_mirror
    check_machines
    check_call "$fixture"
    ! grep -e ' error ' -e 'skipping it' -e 'by its events' -e "$agent_refused" "$JOBCTL_HOME/daemon.log" || exit 1
    close_home
done
cp -r "$fixture" unknown
sed -i 's/"version": *[0-9]*/"version": 77/' unknown/wire.json
open_home unknown
check_unknown
close_home
rm -r unknown
