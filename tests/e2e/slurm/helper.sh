#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# jobctl-slurm against a real Slurm: each of its requests, a repeated submit, mistakes reported by name, and slurmctld
# killed during requests.
. "$TOP/tests/slurm/open.sh"
export WORK
cat >"$WORK/talk.py" <<'PY'
import json, os, subprocess, sys, time
work = os.environ["WORK"]
p = subprocess.Popen(["jobctl-slurm"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
n = 0
def ask(op, **more):
    global n
    n += 1
    p.stdin.write(json.dumps({"id": n, "op": op, **more}) + "\n")
    p.stdin.flush()
    answer = json.loads(p.stdout.readline())
    assert answer["id"] == n, answer
    return answer
def script(name, body, *lines):
    head = [f"--job-name={name}", f"--comment=jobctl:{name}", f"--chdir={work}", "--nodes=1",
            "--ntasks-per-node=1", "--time=5", f"--output={work}/{name}.out", "--no-requeue", *lines]
    return "#!/bin/bash\n" + "".join(f"#SBATCH {l}\n" for l in head) + "#SBATCH not an option\n" + body
def job(name):
    found = [j for j in ask("jobs")["jobs"] if j["comment"] == "jobctl:" + name]
    assert len(found) == 1, found
    return found[0]
def until(name, phase, seconds=60):
    for _ in range(seconds * 20):
        j = job(name)
        if j["phase"] == phase:
            return j
        time.sleep(0.05)
    raise Exception(f"{name} is not {phase}: {j}")

# A submit that is asked for again is the same job.
one = ask("submit", script=script("one", "exit 5\n"))
again = ask("submit", script=script("one", "exit 5\n"))
assert one["ok"] and not one["found"] and again["found"] and again["job"] == one["job"], (one, again)
j = until("one", "ended")
assert j["state"] == "FAILED" and j["exit_code"] == 5 and j["nodes"] == "node1", j
# Its number given out again by a Slurm that lost it: without the comment nothing is cancelled.
a = ask("cancel", job=one["job"], comment="jobctl:another")
assert not a["ok"] and not a["away"], a

# One that waits says why, and is cancelled.
long = ask("submit", script=script("long", "sleep 600\n", "--exclusive"))
until("long", "running")
wait = ask("submit", script=script("wait", "sleep 600\n", "--exclusive"))
for _ in range(200):
    j = job("wait")
    if j["reason"].startswith("Resources (no suitable node is free"):
        break
    time.sleep(0.05)
assert j["phase"] == "pending" and "Resources (no suitable node is free" in j["reason"], j
assert ask("cancel", job=wait["job"], comment="jobctl:wait")["ok"]
assert until("wait", "ended")["state"] == "CANCELLED"

# An array is one job with tasks, told one by one once they have begun, and cancelled one by one.
def tasks(comment):
    return {j.get("task", j.get("tasks")): j for j in ask("jobs")["jobs"] if j["comment"] == comment}
body = script("array", f"echo $SLURM_ARRAY_TASK_ID >>{work}/tasks\nexec sleep 600\n", "--array=0-5%2").replace(
    "--comment=jobctl:array", "--comment=jobctl-array:7.1:c0ffee")
assert ask("cancel", job=long["job"], comment="jobctl:long")["ok"]
a = ask("submit", script=body)
again = ask("submit", script=body)
assert a["ok"] and again["found"] and again["job"] == a["job"], (a, again)
for _ in range(600):
    t = tasks("jobctl-array:7.1:c0ffee")
    if 1 in t:
        break
    time.sleep(0.05)
assert {0: "running", 1: "running", "2-5": "pending"} == {k: j["phase"] for k, j in t.items()}, t
assert {j["job"] for j in t.values()} == {a["job"]}
for task in (4, 0):
    assert ask("cancel", job=a["job"], comment="jobctl-array:7.1:c0ffee", task=task)["ok"]
for _ in range(600):
    t = tasks("jobctl-array:7.1:c0ffee")
    if t.get(2, {}).get("phase") == "running" and t[0]["phase"] == "ended":
        break
    time.sleep(0.05)
assert t[0]["state"] == "CANCELLED" and t[1]["phase"] == "running", t
assert 4 not in t and t["3,5"]["phase"] == "pending", t     # what never began has no record
assert ask("cancel", job=a["job"], comment="jobctl-array:7.1:c0ffee")["ok"]     # the rest of it
for _ in range(600):
    t = tasks("jobctl-array:7.1:c0ffee")
    if all(j["phase"] == "ended" for j in t.values()):
        break
    time.sleep(0.05)
assert all(j["phase"] == "ended" for j in t.values()), t
long = ask("submit", script=script("long3", "sleep 600\n", "--exclusive"))
until("long3", "running")

# What cannot be right is refused in Slurm's words or ours.
for want, bad in [("nvalid partition", script("p", "true\n", "--partition=nowhere")),
                  ("does not support this option", script("o", "true\n", "--begin=noon")),
                  ("a whole number", script("t", "true\n", "--time=soon")),
                  ("a value", script("v", "true\n", "--qos")),
                  ("begins with", "#!/bin/sh\n#SBATCH --comment=mine\n#SBATCH --chdir=/\ntrue\n")]:
    a = ask("submit", script=bad)
    assert not a["ok"] and not a["away"] and want in a["error"], (want, a)
assert not ask("dance")["ok"]
# Everything that a spec may ask for is taken.
a = ask("submit", script=script("all", "true\n", "--constraint=none", "--mem=1G", "--exclude=node1",
                                "--cpus-per-task=2", "--signal=B:USR2@60", "--open-mode=append"))
assert not a["ok"] and "feature" in a["error"], a
nodes = ask("nodes")["nodes"]
assert [(x["node"], x["cpus"]) for x in nodes] == [("node1", 4)], nodes
# GPUs, asked for in both ways, where the cluster could be given some.
if os.path.exists(work + "/slurm/gres.conf"):
    assert nodes[0]["gres"] == "gpu:2", nodes
    assert ask("cancel", job=long["job"], comment="jobctl:long3")["ok"]
    for name, line in [("by-node", "--gpus-per-node=1"), ("by-gres", "--gres=gpu:2")]:
        assert ask("submit", script=script(name, "echo GPUs=$SLURM_JOB_GPUS\n", line))["ok"]
        assert until(name, "ended")["exit_code"] == 0
    assert open(work + "/by-node.out").read() == "GPUs=0\n"
    assert open(work + "/by-gres.out").read() == "GPUs=0,1\n"
    a = ask("submit", script=script("many", "true\n", "--gres=gpu:3"))
    assert not a["ok"] and "node configuration is not available" in a["error"], a
    long = ask("submit", script=script("long2", "sleep 600\n", "--exclusive"))
    until("long2", "running")
else:
    print("no device nodes here: GPUs of Slurm were not tried")

# slurmctld is away: that is an answer, and afterwards all is there.  Its state is saved every 5 s.
time.sleep(6)
subprocess.run([os.environ["TOP"] + "/tests/slurm/cluster.sh", work + "/slurm", "killctl"], check=True)
a = ask("jobs")
assert not a["ok"] and a["away"], a
subprocess.run([os.environ["TOP"] + "/tests/slurm/cluster.sh", work + "/slurm", "startctl"], check=True)
for _ in range(10):
    a = ask("jobs")
    if a["ok"]:
        break
assert [x["phase"] for x in a["jobs"] if x["job"] == long["job"]] == ["running"], a
comment = [x["comment"] for x in a["jobs"] if x["job"] == long["job"]][0]
assert ask("cancel", job=long["job"], comment=comment)["ok"]
until(comment[7:], "ended")
p.stdin.close()
assert p.wait(20) == 0
PY
python3 "$WORK/talk.py"
# Without a configuration it ends and says so: that is why it is a process of its own.
code=0
echo '{"id": 1, "op": "jobs"}' | SLURM_CONF=/nowhere timeout 2 jobctl-slurm >"$WORK/out" 2>"$WORK/err" || code=$?
[ "$code" != 0 ]
