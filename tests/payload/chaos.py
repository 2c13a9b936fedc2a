#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Harm a job of many ranks in every way that can be done here, then prove that it took no harm.

  chaos.py SECONDS PAUSE SEED WORK DATA

A reproducible job of four ranks gets a random fault every PAUSE seconds or so for SECONDS; after each it
must be at work again within half a minute. Then its newest checkpoint is compared, byte by byte, with
that of a run of two ranks which nobody disturbed.
"""
import json
import os
import random
import signal
import subprocess
import sys
import time

RANKS, BACK_S = 4, 40


def jobctl(*args, check=True):
    return subprocess.run(("jobctl",) + args, check=check, stdout=subprocess.PIPE, text=True).stdout


def spec(work, data, name, steps, ranks, every):
    path = f"{work}/{name}.yaml"
    with open(path, "w") as f:
        f.write(f"""name: {name}
resources: {{ranks: {ranks}}}
train:
  model: {{preset: tiny}}
  data: {{path: {data}, caption_words: 4, caption_channels: 32}}
  batch: {{global: 8}}
  steps: {steps}
  ema: 0.9
  optimizer: {{type: adamw, lr: 1.0e-3}}
  reproducible: true
  sample: {{after: false}}
checkpoint: {{every: {every} steps, keep: 4}}
retry: {{max: 100, backoff: 100ms..500ms, no_progress: 100}}
""")
    return path


class Job:
    def __init__(self, id):
        self.id, self.seq, self.pids, self.attempt, self.generation = id, 0, [], 0, 0
        self.checkpoint, self.path, self.began, self.ends = -1, None, -1, []
        self.waits_for_room = False

    def look(self):
        for e in json.loads(jobctl("logs", "--events", str(self.id), "--json"))["events"][self.seq:]:
            self.seq, body, kind = e["seq"], e["body"], e["kind"]
            if kind == "generation_started":
                self.pids, self.attempt = body["pids"], e["attempt"]
                self.generation, self.began = body["generation"], -1
            elif kind == "rank_started" and body["rank"] == 0:
                self.began = body["resume_step"] or 0
            elif kind == "checkpoint":
                self.checkpoint, self.path = body["step"], body["path"]
            elif kind in ("generation_ended", "agent_lost", "start_failed") and body.get("cause") != "none":
                self.ends.append(body.get("cause", kind))
            elif kind == "no_room":
                self.waits_for_room = not body.get("over")
            elif kind == "done":
                raise SystemExit(f"chaos: the job ended: {body}")

    def dir(self):
        return f"{os.environ['JOBCTL_HOME']}/jobs/{self.id}/{self.attempt}"

    def step(self):
        page = subprocess.run(("jobctl-agent", "flight", self.dir() + "/rank0.flight"),
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        if f"generation {self.generation}, pid" not in page:
            return -1
        return next((int(x.split()[1]) for x in page.split("\n") if x.startswith("step ")), -1)

    def ours(self, pid):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                return f"JOBCTL_RUN_DIR={self.dir()}".encode() in f.read().split(b"\0")
        except OSError:
            return False

    def kill(self, rank, signo):
        if self.ours(self.pids[rank]):
            os.kill(self.pids[rank], signo)

    def agent(self, signo):
        with open(self.dir() + "/agent.json") as f:
            os.kill(json.load(f)["pid"], signo)

    def at_work(self, since=None):
        """Until a step is made that is new to its generation, and to `since` = (generation, step)."""
        until = time.time() + BACK_S
        while time.time() < until:
            self.look()
            step = self.step()
            where = (self.attempt, self.generation)
            floor = max(self.began, since[1] if since and since[0] == where else -1)
            if self.began >= 0 and step > floor:
                return where, step
            time.sleep(0.02)
        raise SystemExit(f"chaos: not at work again after {BACK_S} s:\n{jobctl('why', str(self.id))}")


def stop_and_go(job, rank):
    job.kill(rank, signal.SIGSTOP)
    time.sleep(0.4)
    job.kill(rank, signal.SIGCONT)


def spoil(job, rank, how):
    try:
        with open(f"{job.path}/optimizer.safetensors", "r+b") as f:
            size = f.seek(0, 2)
            if how == "truncate":
                f.truncate(size // 2)
            else:
                f.seek(size // 3)
                f.write(b"spoilt spoilt")
    except (OSError, TypeError):
        pass
    job.kill(rank, signal.SIGKILL)


def no_disk(job, rank):
    """Until the job says that it waits for room; then there is some again, and the ranks go on."""
    pid, until = job.pids[rank], time.time() + BACK_S / 2
    if not job.ours(pid):
        return
    subprocess.run(("prlimit", f"--pid={pid}", "--fsize=4096:unlimited"), check=True)
    # Every rank writes its part of each checkpoint: one that was due has perhaps failed already.
    jobctl("checkpoint", str(job.id), check=False)
    while not job.waits_for_room and time.time() < until:
        time.sleep(0.05)
        job.look()
    subprocess.run(("prlimit", f"--pid={pid}", "--fsize=unlimited:unlimited"), check=False)


def kill_daemon(job, rank):
    os.kill(json.loads(jobctl("version", "--json"))["daemon"]["pid"], signal.SIGKILL)


def kill_all(job, rank):
    for r in range(RANKS):
        job.kill(r, signal.SIGKILL)


def agent_and_daemon(job, rank):
    kill_daemon(job, rank)
    job.agent(signal.SIGKILL)


FAULTS = {
    "a rank is killed": lambda j, r: j.kill(r, signal.SIGKILL),
    "a rank crashes": lambda j, r: j.kill(r, signal.SIGSEGV),
    "a rank gets SIGTERM": lambda j, r: j.kill(r, signal.SIGTERM),
    "all ranks are killed": kill_all,
    "a rank stands still": lambda j, r: j.kill(r, signal.SIGSTOP),
    "a rank is slow": stop_and_go,
    "the agent is killed": lambda j, r: j.agent(signal.SIGKILL),
    "the agent gets SIGTERM": lambda j, r: j.agent(signal.SIGTERM),
    "the daemon is killed": kill_daemon,
    "agent and daemon are killed": agent_and_daemon,
    "the newest checkpoint is truncated, a rank killed": lambda j, r: spoil(j, r, "truncate"),
    "the newest checkpoint is changed, a rank killed": lambda j, r: spoil(j, r, "change"),
    "there is no room for a checkpoint": no_disk,
    "a checkpoint is asked for": lambda j, r: jobctl("checkpoint", str(j.id)),
}


def harm(job, seconds, pause, dice):
    end, worst, count = time.time() + seconds, 0, 0
    bag = []
    job.at_work()
    while time.time() < end:
        bag = bag or dice.sample(sorted(FAULTS), len(FAULTS))   # every kind, before any comes again
        what, rank = bag.pop(), dice.randrange(RANKS)
        start = time.time()
        FAULTS[what](job, rank)
        time.sleep(0.2)     # whoever stands still has come to his stop by now
        job.look()
        at = job.at_work(((job.attempt, job.generation), job.step()))
        took = time.time() - start
        print(f"{start - end + seconds:6.1f} s  {what} (rank {rank}): at step {at[1]} of "
              f"{at[0][0]}.{at[0][1]} after {took:.2f} s", flush=True)
        worst, count = max(worst, took), count + 1
        time.sleep(dice.random() * pause)
    return count, worst


def final_checkpoint(job):
    """Asked for at rest: its step is what the undisturbed run has to reach."""
    before = job.checkpoint
    jobctl("cancel", str(job.id))
    jobctl("wait", str(job.id), check=False)
    try:
        job.look()
    except SystemExit:
        pass
    assert job.checkpoint >= before
    return job.checkpoint, job.path


def main():
    seconds, pause, seed = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    work, data = sys.argv[4:]
    dice = random.Random(seed)
    print(f"chaos: seed {seed}")
    job = Job(int(jobctl("submit", "-q", spec(work, data, "chaos", 1000000, RANKS, 20))))
    count, worst = harm(job, seconds, pause, dice)
    step, path = final_checkpoint(job)
    calm = int(jobctl("submit", "-q", spec(work, data, "calm", step, 2, step)))
    began = time.time()
    jobctl("wait", str(calm))
    print(f"chaos: an undisturbed run took {time.time() - began:.1f} s for {step} steps")
    answer = json.loads(jobctl("show", str(calm), "--json"))
    calm_path = answer["job"]["checkpoint"]["path"]
    assert answer["job"]["checkpoint"]["step"] == step, answer["job"]
    for name in ("model.safetensors", "optimizer.safetensors"):
        with open(f"{path}/{name}", "rb") as a, open(f"{calm_path}/{name}", "rb") as b:
            if a.read() != b.read():
                raise SystemExit(f"chaos: {path}/{name} has other bits than {calm_path}/{name}")
    spent = json.loads(jobctl("show", str(job.id), "--json"))["goodput"]
    total = sum(v for k, v in spent.items() if k != "rank_s")
    assert abs(total - spent["rank_s"]) < 1e-3, spent
    print(f"chaos: {count} faults in {seconds:.0f} s, at work again after {worst:.2f} s at most; "
          f"{step} steps with the bits of an undisturbed run; causes: {sorted(set(job.ends))}; "
          f"{100 * spent['productive'] / spent['rank_s']:.0f} % productive")


main()
