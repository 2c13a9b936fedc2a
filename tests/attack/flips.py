#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Damage to any file of a home, while jobs run and while the daemon is down.

  flips.py WORK SEED ROUNDS [SECONDS]     JOBCTL_HOME and PATH as for every command; ends after SECONDS, if told

A home with finished jobs is made once and copied for each round. A round starts a daemon and jobs, damages a file that
it finds by walking the home (each kind of file is as likely as another: numbers and digests in a name count as one), in
one of the ways of HARM, lets the jobs end, and asks invariants.py. Some rounds have another scene (KINDS): damage to
the checkpoint that a training would go on from, a directory with checkpoints of another, of two, of one that was
frozen. ROUNDS and the last SEED: a line tells each round's seed, and `flips.py WORK ROUND_SEED 1` repeats it.
ATTACK_FILES=REGEX: only files whose paths match. ATTACK_KIND=NAME: only that scene.
"""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import invariants
from invariants import Broken, ask, note, run

WORK = os.path.abspath(sys.argv[1])
HOME = os.environ["JOBCTL_HOME"]
OTHER = WORK + "/other"         # a second home, where a scene has one
RETRY = "retry: {max: 1000, no_progress: 1000, backoff: 50ms..100ms}"
ONLY = re.compile(os.environ.get("ATTACK_FILES", ""))
STEPS = int(os.environ.get("ATTACK_STEPS", "600"))
END_S = 90 * int(os.environ.get("TEST_PATIENCE", "1"))


def kind_of(path):
    return re.sub(r"[0-9a-f]{16,}|\d+", "N", os.path.relpath(path, HOME))


def files():
    """All that there is in the home and in the directories that its jobs lease, by kind."""
    kinds = {}
    for top in (HOME, WORK + "/leased"):
        for folder, _, found in os.walk(top):
            for name in found:
                path = os.path.join(folder, name)
                if ONLY.search(path) and os.path.isfile(path) and not os.path.islink(path) and os.path.getsize(path):
                    kinds.setdefault(kind_of(path), []).append(path)
    return kinds


def flip(f, size, dice):
    """One bit; of a long file often one of its first page."""
    at = dice.randrange(size if dice.random() < 0.5 else min(size, 4096))
    f.seek(at)
    old = f.read(1)[0]
    f.seek(at)
    f.write(bytes([old ^ 1 << dice.randrange(8)]))
    return "bit flipped in byte %d" % at


def scribble(f, size, dice):
    at = dice.randrange(size)
    f.seek(at)
    f.write(bytes(dice.randrange(256) for _ in range(min(16, size - at))))
    return "16 bytes overwritten at %d" % at


def blank(f, size, dice):
    at = dice.randrange(size) // 4096 * 4096
    f.seek(at)
    f.write(bytes(min(4096, size - at)))
    return "zeros from %d on" % at


def cut(f, size, dice):
    to = dice.randrange(size)
    f.truncate(to)
    return "cut to %d of %d bytes" % (to, size)


def grow(f, size, dice):
    f.seek(0, 2)
    f.write(bytes(dice.randrange(256) for _ in range(64)))
    return "64 bytes more at the end"


HARM = [flip, flip, scribble, blank, cut, grow]


def damage(dice):
    while True:
        kinds = files()
        path = dice.choice(sorted(kinds[dice.choice(sorted(kinds))]))
        try:
            with open(path, "r+b") as f:
                return path, dice.choice(HARM)(f, os.path.getsize(path), dice)
        except FileNotFoundError:
            pass            # a job that runs has replaced it


def spec(name, body):
    path = "%s/%s.yaml" % (WORK, name)
    with open(path, "w") as f:
        f.write("name: %s\n%s" % (name, body))
    return path


def submit(name, kind, body, *options, **more):
    code, out, err = run("jobctl", "submit", "-q", spec(name, body), *options)
    if code == 0:
        note(WORK, id=int(out), name=name, kind=kind, **more)
        return int(out)
    return None


def indented(lines):
    return "".join("  %s\n" % line for line in lines.splitlines())


def script(name, more=""):
    lines = indented(invariants.script(WORK, name))
    return submit(name, "script", "resources: {cpus: 1}\n%s\n%srun: |\n%s" % (RETRY, more, lines))


def training_body(seed, folder):
    return """resources: {ranks: 1, cpus: 1, gpus: 0}
train:
  model: {preset: tiny}
  data: {encoders: synthetic, resolution: 128}
  batch: {global: 4}
  steps: %d
  seed: %d
  reproducible: true
  sample: {after: false}
checkpoint: {every: 100 steps, keep: 3%s}
%s
""" % (STEPS, seed, ", dir: %s" % folder if folder else "", RETRY)


def training(name, seed, folder="", **more):
    more = dict({"folder": folder} if folder else {}, **more)
    return submit(name, "train", training_body(seed, folder), steps=STEPS, **more)


def there(*args):
    """A command for the second home."""
    code, out, err = run("env", "JOBCTL_HOME=" + OTHER, "jobctl", *args)
    if code != 0:
        raise Broken("in the second home: %s: exit %d: %s" % (" ".join(args), code, err))
    return out


def pids_of_home(word=""):
    """The daemon of this home, and what it started: agents, and what those started. Not who called us."""
    marks = {("JOBCTL_HOME=" + home).encode() for home in (HOME, OTHER)}
    for d in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % d, "rb") as f:
                environment = f.read()
            with open("/proc/%s/cmdline" % d, "rb") as f:
                command = f.read().replace(b"\0", b" ").decode(errors="replace")
            with open("/proc/%s/stat" % d) as f:
                zombie = f.read().rpartition(")")[2].split()[0] in "ZX"
        except OSError:
            continue
        ours = marks & set(environment.split(b"\0")) and (b"\0JOBCTL_JOB_ID=" in environment or
                                                     re.match(r"\S*jobctl( daemon|-agent|-train)", command))
        if ours and not zombie and word in command:
            yield int(d)


def until(what, limit, so, moved=lambda: None):
    """`limit`: seconds in which moved() stays the same, so that where something moves a slow machine only takes longer."""
    end, last, pause = time.monotonic() + limit, moved(), 0.02
    while not so():
        now = moved()
        if now != last:
            end, last = time.monotonic() + limit, now
        if time.monotonic() > end:
            raise Broken("nothing within %d s: %s" % (limit, what() if callable(what) else what))
        time.sleep(pause)
        pause = min(2 * pause, 0.5)


class Progress:
    """How far all jobs have come: grows with each that ends and with each step that is the first of its number."""

    def __init__(self, rows):
        self.rows, self.best, self.done = rows, {}, 0

    def __call__(self):
        try:
            rows = self.rows()
        except Broken:                  # a damaged store, at which the daemon stops
            rows = []
        for row in rows:
            self.best[row["id"]] = max(self.best.get(row["id"], 0), row["step"] or 0)
        self.done = max(self.done, sum(row["state"] == "done" for row in rows))
        return self.done, sum(self.best.values())


def end_processes(pids, signo=signal.SIGKILL):
    for pid in pids:
        try:
            os.kill(pid, signo)
        except ProcessLookupError:
            pass


def end_daemon(signo):
    pids = list(pids_of_home("jobctl daemon"))
    end_processes(pids, signo)
    until("the daemon ends", 60, lambda: not set(pids) & set(pids_of_home()))


def end_all():
    def none():
        left = list(pids_of_home())
        end_processes(left)
        return not left
    until("all processes end", 60, none)


def of_job(pid, job):
    try:
        with open("/proc/%d/environ" % pid, "rb") as f:
            environment = f.read()
        with open("/proc/%d/cmdline" % pid, "rb") as f:
            return b"jobs/%d/" % job in f.read() + environment
    except OSError:
        return False


def began(name):
    return any(word[0] == "begin" for word in invariants.journal(WORK, name))


def at_step(job, step):
    return (ask("show", str(job))["job"]["step"] or 0) >= step


def undisturbed():
    """What undisturbed runs came to, by seed; then the home with these jobs is the one to begin with."""
    run("jobctl", "daemon", "--detach")
    jobs = {seed: training("calm-%d" % seed, seed) for seed in (1, 2)}
    first = script("first")
    open(WORK + "/go-first", "w").close()
    run("jobctl", "wait", *map(str, [first, *jobs.values()]), limit=600)
    found = {}
    for seed, job in jobs.items():
        folder = invariants.folder_of(job, {})
        found[seed] = {"loss": ask("show", str(job))["job"]["loss"], "curve": invariants.curve(folder, STEPS),
                       "weights": invariants.weights(folder, STEPS)}
        note(WORK, id=job, **found[seed])
    if any(None in of.values() for of in found.values()) or any(found[1][key] == found[2][key] for key in found[1]):
        raise SystemExit("flips: nothing to compare with: %s" % found)
    end_daemon(signal.SIGTERM)
    for name in ("state", "ran", "ledger.jsonl", "leased"):
        source = HOME if name == "state" else "%s/%s" % (WORK, name)
        (shutil.copytree if os.path.isdir(source) else shutil.copy)(source, "%s/base/%s" % (WORK, name))
    return found


def fresh():
    shutil.rmtree(OTHER, ignore_errors=True)
    for name in ("state", "ran", "ledger.jsonl", "leased"):
        target = HOME if name == "state" else "%s/%s" % (WORK, name)
        shutil.rmtree(target, ignore_errors=True)
        source = "%s/base/%s" % (WORK, name)
        (shutil.copytree if os.path.isdir(source) else shutil.copy)(source, target)
    for go in ("go", "go-runs", "go-first"):
        if os.path.exists("%s/%s" % (WORK, go)):
            os.unlink("%s/%s" % (WORK, go))


class Round:
    """Any file is damaged, while the daemon runs or is down."""

    def __init__(self, seed, calm):
        self.dice, self.calm, self.told = random.Random(seed), calm, ""
        self.down = self.dice.random() < 0.6
        self.crash = self.dice.random() < 0.5
        self.damaged, self.what = [], ""
        self.folder = WORK + "/leased/trains"

    def begin(self):
        fresh()
        run("jobctl", "daemon", "--detach")
        self.job = training("trains", 2, self.folder, **self.calm[2])
        self.others()

    def others(self):
        runs = script("runs", "secrets: [ATTACK_SECRET]\n")
        note(WORK, id=runs, may_fail="secrets are kept in memory only")
        waits = script("waits", "after: [runs]\n")
        note(WORK, id=waits, may_fail="dependency failed: job %d " % runs)
        until("the script runs", END_S, lambda: began("runs"))
        self.trains()

    def trains(self):
        step = self.dice.randrange(101, STEPS // 2)
        until("the training has a checkpoint", END_S, lambda: at_step(self.job, step))

    def harm(self):
        if self.down:
            end_daemon(signal.SIGKILL if self.crash else signal.SIGTERM)
            if self.dice.random() < 0.5:            # the machine was off
                end_all()
        path, what = damage(self.dice)
        self.note_damage(path, what)

    def note_damage(self, path, what):
        self.damaged.append(path)
        self.what = "%s: %s" % (os.path.relpath(path, WORK), what)

    def hear(self, *command):
        code, out, err = run("jobctl", *command)
        self.told += out + err
        return code, re.sub(r"\s+", " ", out + err)

    def look(self):
        """What a user does whose daemon has stopped on a damaged store: the next one has the jobs. The sentence must name
        the store."""
        code, said = self.hear("status", "-a")
        if code != 0 and not invariants.names(said, self.damaged + [HOME + "/jobs.db"]):
            raise Broken("status fails and does not name the file: %s" % said)
        if code != 0:
            code, said = self.hear("status", "-a")
        if code != 0:
            raise Broken("status fails twice: %s" % said)

    def after(self):
        self.look()
        submit("later", "script", "resources: {cpus: 1}\nrun: |\n" + indented(invariants.script(WORK, "later")))
        open(WORK + "/go", "w").close()
        until(lambda: "all jobs end: %s" % self.unfinished(), END_S, lambda: not self.unfinished(), Progress(self.rows))

    def rows(self):
        return ask("status", "-a", "-n", "10000")["jobs"]

    def unfinished(self):
        """A store that shows its damage only now stops the daemon."""
        try:
            rows = self.rows()
        except Broken:
            self.look()
            rows = self.rows()
        return [row["id"] for row in rows if row["state"] != "done"]

    def run(self):
        self.begin()
        self.harm()
        self.after()
        with open(HOME + "/daemon.log", errors="replace") as f:
            self.told += f.read()
        return invariants.check(WORK, self.damaged, self.told)


class Newest(Round):
    """The machine was off, and the checkpoint that the training would go on from has changed meanwhile."""

    def harm(self):
        self.down = self.crash = True
        end_daemon(signal.SIGKILL)
        end_all()
        steps = sorted(name for name in os.listdir(self.folder) if name.startswith("step-"))
        path = "%s/%s/%s.safetensors" % (self.folder, steps[-1], self.dice.choice(["model", "optimizer"]))
        with open(path, "r+b") as f:
            size, header = os.path.getsize(path), 8 + int.from_bytes(f.read(8), "little")
            at = self.dice.randrange(header, size - 64)
            f.seek(at)
            old = f.read(64)
            f.seek(at)
            f.write(bytes(byte ^ 4 for byte in old))    # numbers still, and no check of their form sees it
        self.note_damage(path, "a bit of each of 64 bytes flipped at %d" % at)

    def after(self):
        super().after()
        last = "step-%08d" % STEPS      # of a training that was over: nobody reads it again
        if (last not in self.damaged[0] and os.path.exists(self.damaged[0])
                and not os.path.exists(self.folder + "/quarantine")):
            raise Broken("the damaged checkpoint is in its place, and none was put aside")


class Stranger(Round):
    """A training is given a directory that has the checkpoints of another one."""

    def others(self):
        first = next(job for job, entry in invariants.ledger(WORK).items() if entry["name"] == "calm-1")
        folder = WORK + "/leased/strange"
        shutil.copytree(invariants.folder_of(first, {}), folder,
                        ignore=shutil.ignore_patterns("step-%08d" % STEPS))
        training("stranger", 2, folder, may_fail="was written by another job", **self.calm[2])

    def harm(self):
        self.down, self.what = False, "checkpoints of another job are in its directory"


class Shared(Round):
    """Trainings of two homes are given one directory: one waits for the other, then is told whose it is."""

    def others(self):
        note(WORK, id=self.job, may_fail="was written by another job")
        there("daemon", "--detach")
        there("submit", "-q", spec("shares", training_body(1, self.folder)))

    def harm(self):
        self.down, self.what = False, "trainings of two homes have one directory"

    def after(self):
        super().after()
        until("the other training ends", END_S, lambda: self.other()["state"] == "done")
        ours = next(row for row in self.rows() if row["id"] == self.job)
        if {ours["result"], self.other()["result"]} != {"failed", "succeeded"}:
            raise Broken("of two trainings in one directory: ours %s, the other %s" % (
                ours["result"], self.other()["result"]))
        who = self.calm[2 if ours["result"] == "succeeded" else 1]
        if invariants.weights(self.folder, STEPS) != who["weights"]:
            raise Broken("the directory has not the last checkpoint of the training that succeeded")

    def other(self):
        return json.loads(there("show", "shares", "--json"))["job"]


class Thawed(Round):
    """A training that was frozen thaws when its directory is another home's: it writes nothing there any more. Its
    rank thaws first: no agent stops it."""

    def others(self):
        self.trains()

    def written(self):
        return sorted(os.path.join(folder, name) for folder, _, names in os.walk(self.folder) for name in names
                      if not re.match(r"lease|[.]tmp-.*-lease", name))  # the guest's agent renews it

    def harm(self):
        self.down, self.what = False, "frozen until its directory is that of another job"
        frozen = [pid for pid in pids_of_home() if of_job(pid, self.job)]
        end_processes(frozen, signal.SIGSTOP)
        try:
            there("daemon", "--detach")
            there("submit", "-q", spec("guest", "resources: {cpus: 1}\ncheckpoint: {dir: %s}\nrun: |\n%s" % (
                self.folder, indented(invariants.script(WORK, "guest")))))
            until("the guest has the directory", END_S, lambda: began("guest"))
            before = self.written()
            rank = set(frozen) & set(pids_of_home("jobctl-train"))
            end_processes(rank, signal.SIGCONT)
            until("the rank ends", END_S, lambda: not rank & set(pids_of_home()))
        finally:
            end_processes(frozen, signal.SIGCONT)
        until("what was frozen ends", END_S, lambda: not set(frozen) & set(pids_of_home()))
        if self.written() != before:
            raise Broken("files of a directory that another job has: %s" % sorted(set(self.written()) ^ set(before)))


KINDS = {"any": Round, "newest": Newest, "stranger": Stranger, "shared": Shared, "thawed": Thawed}
OFTEN = {"any": 6}


def of_seed(seed, calm):
    dice = random.Random(seed)
    kind = dice.choices(list(KINDS), [OFTEN.get(name, 1) for name in KINDS])[0]
    return KINDS[os.environ.get("ATTACK_KIND", kind)](dice.random(), calm)


def one(seed, calm):
    r, start = of_seed(seed, calm), time.monotonic()
    try:
        objections = r.run()
    except Broken as e:
        objections = [str(e)]
    print("flips: round %d, %s: %s (%.1f s)%s" % (
        seed, ("daemon killed" if r.crash else "daemon stopped") if r.down else "daemon runs",
        r.what, time.monotonic() - start, "".join("\n    OBJECTION " + o for o in objections)), flush=True)
    if objections and os.environ.get("KEEP"):
        shutil.copytree(WORK, "%s/%d" % (os.environ["KEEP"], seed), symlinks=True, dirs_exist_ok=True,
                        ignore=lambda d, names: [n for n in names if n.endswith(".sock") or n == "base"])
    end_all()
    return objections


def main():
    seed, rounds = int(sys.argv[2]), int(sys.argv[3])
    end = time.monotonic() + float(sys.argv[4]) if len(sys.argv) > 4 else float("inf")
    for folder in ("ran", "leased", "base"):
        os.makedirs("%s/%s" % (WORK, folder), exist_ok=True)
    os.environ["JOBCTL_LEASE_MS"] = "2000"
    os.environ["ATTACK_SECRET"] = "a secret of the attack"
    print("flips: seed %d" % seed, flush=True)
    bad = done = 0
    try:
        calm = undisturbed()
        for k in range(rounds):
            if done and time.monotonic() > end:
                break
            bad += bool(one(seed + k, calm))
            done += 1
    finally:
        end_all()
    print("flips: %d rounds from seed %d, %d with objections" % (done, seed, bad))
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
