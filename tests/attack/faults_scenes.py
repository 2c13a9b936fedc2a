# SPDX-License-Identifier: Apache-2.0
# faults_scenes.py - the scenes in which a call fails, one class each
#
# ready() creates the initial state, act() runs with the fault, after() states without the fault what must hold; then
# the checker runs (faults_home.py).  A scene keeps its home from case to case.
import os

from faults_home import must, wait_until
from faults_page import ALWAYS

FILES = (("write", "sync", "rename", "create", "resize", "remove"), ("EIO", "ENOSPC"))
WRITES = (("write",), ("short", "EINTR"))
READS = (("open", "read", "look"), ("EIO",))
DESCRIPTORS = (("descriptor",), ("EMFILE",))
PROCESSES = (("process",), ("EAGAIN",))
MEMORY = (("memory",), ("ENOMEM",))
ALL = (FILES, WRITES, READS, DESCRIPTORS, PROCESSES, MEMORY)


class Scene:
    program, faults, times = "jobctl daemon", ALL, 1

    def __init__(self, home):
        self.home = home

    @property
    def below(self):
        return self.home.work

    def ready(self):
        if not self.home.daemon or self.home.daemon.poll() is not None:
            self.home.restart()

    def act(self):
        raise NotImplementedError

    def after(self):
        self.home.restart()

    def close(self):
        self.home.stop()


class Submit(Scene):
    """The command: without the daemon's help it must say what it could not do."""
    program = "jobctl submit"

    def act(self):
        self.home.submit("--hold")

    def after(self):
        pass


class Exhausted(Submit):
    """The command, once there is no memory left at all."""
    faults, times = (MEMORY,), ALWAYS


class Accept(Scene):
    """The daemon takes a job."""

    def act(self):
        self.home.submit("--hold")


class Restart(Scene):
    """The daemon starts over jobs that wait, run and have ended."""

    def ready(self):
        super().ready()
        if self.home.count == 0:
            self.home.done(self.home.submit())
            self.home.submit("--hold")
            self.running = self.home.submit(run="while [ ! -e %s/go ]; do sleep 0.05; done" % self.home.work)
            wait_until("it runs", lambda: self.home.job(self.running)["state"] == "running")
        self.home.kill()

    def act(self):
        self.home.start()

    def after(self):
        super().after()
        job = wait_until("the agent is found again", self.connected)
        must(job["attempt"] == 1 and job["generation"] == 1, "the running job was started again")

    def connected(self):
        job = self.home.job(self.running)
        return job if job["state"] != "starting" else None

    def close(self):
        if self.home.count == 0:
            return
        open(os.path.join(self.home.work, "go"), "w").close()
        self.home.done(self.running)
        super().close()


class Snapshot(Restart):
    """The daemon makes the day's copy of the store."""
    faults = (FILES, WRITES, READS)

    @property
    def below(self):
        return os.path.join(self.home.dir, "snapshots")

    def ready(self):
        super().ready()
        for name in os.listdir(self.below) if os.path.isdir(self.below) else ():
            os.remove(os.path.join(self.below, name))

    def act(self):
        super().act()
        if self.home.daemon:
            wait_until("a copy is there or was given up", self.copied, 20)

    def copied(self):
        made = [n for n in os.listdir(self.below) if n.endswith(".db")] if os.path.isdir(self.below) else []
        return made or "copy" in self.home.said()


class Life(Scene):
    """The daemon from a submit to the end of the job."""

    def act(self):
        self.name = self.home.submit()
        if self.home.told[self.name] is not None:
            self.home.run("wait", self.name, "--timeout", "2")

    def after(self):
        super().after()
        if self.home.told[self.name] is not None:
            self.home.done(self.name)
            self.home.nothing_left()


class Launch(Life):
    """The agent from its start to the end of its job."""
    program = "jobctl-agent"

    def after(self):
        self.home.done(self.name)
        self.home.nothing_left()


class Cancel(Scene):
    """The daemon ends a job that runs."""

    def ready(self):
        super().ready()
        self.name = self.home.submit(run="sleep 600")
        wait_until("it runs", lambda: self.home.job(self.name)["state"] == "running")

    def act(self):
        self.home.clean(self.home.run("cancel", self.name, "--now"))

    def restarted(self):
        super().after()

    def after(self):
        self.restarted()
        if self.home.job(self.name)["state"] not in ("done", "stopping"):
            self.home.run("cancel", self.name, "--now")
        job = self.home.done(self.name)
        must(job["result"] == "cancelled", "%s is %s: %s" % (self.name, job["result"], job["reason"]))
        self.home.nothing_left()


class CancelAgent(Cancel):
    """The agent ends its job."""
    program = "jobctl-agent"

    def restarted(self):
        pass


class Remove(Scene):
    """The daemon removes a job that has ended."""

    def ready(self):
        super().ready()
        self.name = self.home.submit()
        self.home.done(self.name)

    def act(self):
        self.home.clean(self.home.run("prune", "--keep", "0", "--yes"))

    def after(self):
        super().after()
        number = self.home.told.pop(self.name)
        self.home.run("remove", str(number))
        path = os.path.join(self.home.dir, "jobs", str(number))
        wait_until("%s is gone" % path, lambda: not os.path.exists(path), 20)
        must(all(j["id"] != number for j in self.home.jobs()), "job %d is still listed" % number)


class Train(Scene):
    """A rank trains and writes checkpoints: whatever fails, the run ends with the bits of an undisturbed one."""
    program = "jobctl-train train"
    faults = (FILES, WRITES, READS)
    spec = """name: %s
resources: {gpus: 0, cpus: 1}
train:
  model: {preset: tiny, depth: 1, hidden: 32, heads: 1}
  data: {encoders: synthetic, resolution: 32}
  batch: {global: 2}
  steps: 9
  seed: 5
  reproducible: true
  sample: {after: false}
env: {OMP_NUM_THREADS: 1}
checkpoint: {every: 3 steps, keep: 2}
retry: {backoff: 0.02s..0.05s, disk_wait: 1s}
"""
    wanted = None

    @property
    def below(self):
        return os.path.join(self.home.dir, "jobs")

    def act(self):
        self.name = "t%d" % (self.home.count + 1)
        self.home.count += 1
        path = os.path.join(self.home.work, "train.yaml")
        with open(path, "w") as f:
            f.write(self.spec % self.name)
        done = self.home.run("submit", path, "-q")
        self.home.clean(done)
        self.home.told[self.name] = int(done.stdout)
        self.home.done(self.name)

    def after(self):
        self.home.nothing_left()
        job = self.home.job(self.name)
        must(job["result"] == "succeeded", "%s is %s: %s" % (self.name, job["result"], job["reason"]))
        bits = self.bits(job["id"])
        Train.wanted = Train.wanted or bits
        must(bits == Train.wanted, "%s has other weights than an undisturbed run" % self.name)

    def bits(self, number):
        path = os.path.join(self.home.dir, "jobs/%d/checkpoints/step-00000009/model.safetensors" % number)
        with open(path, "rb") as f:
            return f.read()


SCENES = {c.__name__.lower(): c for c in (Submit, Exhausted, Accept, Restart, Snapshot, Life, Launch, Cancel,
                                           CancelAgent, Remove, Train)}
