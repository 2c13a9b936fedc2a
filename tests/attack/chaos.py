#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Everything at once: kills, frozen processes, a full disk, damaged files, a lost store, and users meanwhile.

  chaos.py WORK SEED SECONDS     JOBCTL_HOME and PATH as for every command

Users submit, cancel, remove and prune; every second or so one of FAULTS happens, every kind before any comes again. At
the end all that waits is let go, all jobs come to an end, and invariants.py has no objection. A script is killed only
before it was let go: afterwards it may have written its end, and nobody can know that. That of an agent that was killed
dies soon after it, and is not let go before.
"""
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import flips
import invariants
from flips import HOME, WORK
from invariants import Broken, ask, note, run

PAUSE_S, JOBS_MAX = 1.0, 8


class Chaos:
    def __init__(self, seed, calm):
        self.dice, self.calm = random.Random(seed), calm
        self.made, self.held, self.frozen, self.damaged, self.told = 0, {}, [], [], ""
        self.doomed, self.job_of = {}, {}       # job: pids of its script; pid: its job
        self.count = {}

    # ---- users ----

    def rows(self):
        return ask("status", "-a", "-n", "10000")["jobs"]

    def submit(self):
        if sum(row["state"] != "done" for row in self.rows()) >= JOBS_MAX:
            return self.let_go()
        self.made += 1
        name = "job%d" % self.made
        if self.dice.random() < 0.3:
            seed = self.dice.choice([1, 2])
            folder = "%s/leased/%s" % (WORK, name) if self.dice.random() < 0.5 else ""
            flips.training(name, seed, folder, **self.calm[seed])
        else:
            job = flips.script(name)
            if job:
                self.held[job] = name
        return None

    def dying(self, job):
        """Has it a script whose agent was ended, and which lives?"""
        self.doomed[job] = [pid for pid in self.doomed.get(job, ()) if os.path.exists("/proc/%d" % pid)]
        return bool(self.doomed[job])

    def let_go(self):
        free = [job for job in sorted(self.held) if not self.dying(job)]
        if free:
            open("%s/go-%s" % (WORK, self.held.pop(self.dice.choice(free))), "w").close()

    def cancel(self):
        unfinished = [row["id"] for row in self.rows() if row["state"] != "done"]
        if unfinished:
            job = self.dice.choice(unfinished)
            note(WORK, id=job, cancelled=True)
            self.held.pop(job, None)
            run("jobctl", "cancel", "-q", str(job))

    def remove(self):
        """One, or by a rule all but some; what the rule took is seen in the list."""
        before = {row["id"] for row in self.rows()}
        done = [row["id"] for row in self.rows() if row["state"] == "done"]
        if done and self.dice.random() < 0.5:
            run("jobctl", "remove", "-q", str(self.dice.choice(done)))
        else:
            run("jobctl", "prune", "--keep", "6", "--yes", "-q")
        for job in before - {row["id"] for row in self.rows()}:
            note(WORK, id=job, removed=True)

    # ---- faults ----

    def processes(self, wanted):
        """Pids of agents and guardians ("agent") or of ranks, of jobs that may be killed."""
        for pid in flips.pids_of_home():
            try:
                with open("/proc/%d/cmdline" % pid, "rb") as f:
                    command = f.read().replace(b"\0", b" ").decode(errors="replace")
                with open("/proc/%d/environ" % pid, "rb") as f:
                    found = re.search(r"/jobs/(\d+)/", command + f.read().decode(errors="replace"))
            except OSError:
                continue
            job = int(found.group(1)) if found else 0
            entry = self.ledger.get(job, {})
            if job and ("jobctl-agent" in command) == (wanted == "agent") and "jobctl daemon" not in command:
                if entry.get("kind") == "train" or job in self.held:
                    self.job_of[pid] = job
                    yield pid

    def signal_one(self, wanted, signo):
        self.ledger = invariants.ledger(WORK)
        pids = sorted(self.processes(wanted))
        if pids:
            pid = self.dice.choice(pids)
            if wanted == "agent" and signo != signal.SIGSTOP and not is_guardian(pid):
                self.doom(self.job_of[pid])
            flips.end_processes([pid], signo)
            return pid
        return None

    def doom(self, job):
        if job in self.held:
            self.doomed[job] = [int(words[1]) for words in invariants.journal(WORK, self.held[job])]

    def freeze(self, pid):
        if pid:
            flips.end_processes([pid], signal.SIGSTOP)
            self.frozen.append((time.monotonic() + self.dice.random() * 4, pid))

    def thaw(self, all_of_them=False):
        for entry in list(self.frozen):
            if all_of_them or time.monotonic() > entry[0]:
                flips.end_processes([entry[1]], signal.SIGCONT)
                self.frozen.remove(entry)

    def kill_daemon(self):
        self.thaw(True)
        flips.end_daemon(signal.SIGKILL)

    def kill_all(self):
        """The machine lost its power, but for scripts that were let go."""
        self.kill_daemon()
        self.ledger = invariants.ledger(WORK)
        flips.end_processes([*self.processes("agent"), *self.processes("rank")])

    def freeze_daemon(self):
        for pid in flips.pids_of_home("jobctl daemon"):
            self.freeze(pid)
        time.sleep(0.5)
        self.thaw(True)

    def damage(self):
        self.kill_daemon()
        self.free_disk()                # damage needs a little room, too
        path, what = flips.damage(self.dice)
        self.damaged.append(path)
        self.say("%s: %s" % (os.path.relpath(path, WORK), what))

    def lose_store(self):
        self.kill_daemon()
        for name in ("jobs.db", "jobs.db-wal", "jobs.db-shm"):
            if os.path.exists("%s/%s" % (HOME, name)):
                os.unlink("%s/%s" % (HOME, name))

    def fill_disk(self):
        if not os.path.ismount(WORK + "/leased"):
            return
        try:
            with open(WORK + "/leased/filler", "wb", buffering=0) as f:
                while True:
                    f.write(bytes(1 << 20))
        except OSError:
            pass

    def free_disk(self):
        if os.path.exists(WORK + "/leased/filler"):
            os.unlink(WORK + "/leased/filler")

    def make_room(self):
        """What a user does who reads that a job waits for its disk: trainings that are over go elsewhere."""
        self.free_disk()
        unfinished = {row["name"] for row in self.rows() if row["state"] != "done"}
        os.makedirs(WORK + "/kept", exist_ok=True)
        for name in sorted(set(os.listdir(WORK + "/leased")) - unfinished):
            folder = "%s/leased/%s" % (WORK, name)
            if os.path.isdir(folder) and not os.path.islink(folder):
                shutil.move(folder, "%s/kept/%s" % (WORK, name))
                os.symlink("%s/kept/%s" % (WORK, name), folder)

    def say(self, text):
        print("chaos:   " + text, flush=True)

    def mend(self):
        """What a user does who reads what `status` says."""
        code, out, err = run("jobctl", "status")
        self.told += out + err
        if code != 0:           # the daemon has stopped on a damaged store
            code, out, err = run("jobctl", "status")
            self.told += out + err
        if code != 0:
            raise Broken("status: exit %d: %s" % (code, err or out))

    def act(self, name):
        self.count[name] = self.count.get(name, 0) + 1
        FAULTS[name](self)
        self.thaw()
        self.mend()

    def go_on(self, seconds):
        end, bag, began = time.monotonic() + seconds, [], time.monotonic()
        while time.monotonic() < end:
            bag = bag or self.dice.sample(sorted(FAULTS), len(FAULTS))
            what = bag.pop()
            print("chaos: %6.1f s  %s" % (time.monotonic() - began, what), flush=True)
            self.act(what)
            for _ in range(2):
                self.dice.choice([self.submit, self.submit, self.submit, self.let_go, self.cancel, self.remove])()
            time.sleep(self.dice.random() * PAUSE_S)

    def finish(self):
        self.thaw(True)
        self.mend()
        self.make_room()
        flips.until("scripts of ended agents end", 3 * flips.END_S, lambda: not any(map(self.dying, self.doomed)))
        open(WORK + "/go", "w").close()
        flips.until(lambda: "all jobs end, of these %s" % self.what_waits(), 3 * flips.END_S, lambda: not self.unfinished(),
                    flips.Progress(self.rows))
        with open(HOME + "/daemon.log", errors="replace") as f:
            self.told += f.read()
        full = self.count.get("the disk of checkpoints is full")
        return invariants.check(WORK, self.damaged, self.told, curves=not full)

    def what_waits(self):
        return "\n".join("job %d: %s" % (job, run("jobctl", "why", str(job))[1]) for job in self.unfinished())

    def unfinished(self):
        self.mend()
        return [row["id"] for row in self.rows() if row["state"] != "done"]


def is_guardian(pid):
    """It ends what a dead agent left; its own end harms no script."""
    try:
        with open("/proc/%d/comm" % pid) as f:
            return "guard" in f.read()
    except OSError:
        return False


FAULTS = {
    "the daemon is killed": Chaos.kill_daemon,
    "the daemon is frozen": Chaos.freeze_daemon,
    "an agent or guardian is killed": lambda c: c.signal_one("agent", signal.SIGKILL),
    "an agent gets SIGTERM": lambda c: c.signal_one("agent", signal.SIGTERM),
    "an agent or guardian is frozen": lambda c: c.freeze(c.signal_one("agent", signal.SIGSTOP)),
    "a rank is killed": lambda c: c.signal_one("rank", signal.SIGKILL),
    "a rank is frozen": lambda c: c.freeze(c.signal_one("rank", signal.SIGSTOP)),
    "the power is lost": Chaos.kill_all,
    "a file is damaged while the daemon is down": Chaos.damage,
    "the store is lost": Chaos.lose_store,
    "the disk of checkpoints is full": Chaos.fill_disk,
    "the disk of checkpoints has room": Chaos.make_room,
}


def small_disk(on):
    """A file system of 64 MiB for checkpoints, where we may mount one."""
    if on and subprocess.call(["mount", "-t", "tmpfs", "-o", "size=64m", "none", WORK + "/leased"],
                              stderr=subprocess.DEVNULL) != 0:
        print("chaos: no mounts here: no disk will be full")
    elif not on and os.path.ismount(WORK + "/leased"):
        subprocess.call(["umount", "-l", WORK + "/leased"])


def main():
    seed, seconds = int(sys.argv[2]), float(sys.argv[3])
    print("chaos: seed %d" % seed, flush=True)
    for folder in ("ran", "leased", "base"):
        os.makedirs("%s/%s" % (WORK, folder), exist_ok=True)
    chaos = None
    try:
        chaos = Chaos(seed, flips.undisturbed())
        shutil.rmtree(WORK + "/base")
        small_disk(True)
        run("jobctl", "daemon", "--detach")
        chaos.go_on(seconds)
        objections = chaos.finish()
    except Broken as e:
        objections = [str(e)]
    finally:
        if chaos:
            chaos.thaw(True)
        flips.end_all()
        small_disk(False)
    for sentence in objections:
        print("chaos: OBJECTION " + sentence)
    jobs = invariants.ledger(WORK)
    print("chaos: %d faults (%s), %d jobs, %d cancelled, %d removed, %d objections" % (
        sum(chaos.count.values()), ", ".join("%s: %d" % x for x in sorted(chaos.count.items())), len(jobs),
        sum("cancelled" in j for j in jobs.values()), sum("removed" in j for j in jobs.values()), len(objections)))
    sys.exit(bool(objections))


main()
