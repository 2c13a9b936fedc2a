#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A flipped bit in each file beside a job, at chosen places, in each state of the job: it ends, or says what is damaged.

  beside.py WORK PLACES [SCENE...]     JOBCTL_HOME and PATH as for every command; BESIDE_FILES=REGEX: only such files

For each scene (SCENES), each file that lies beside a job in it, and PLACES places of that file, a job of its own is
brought into the state of the scene, one bit is flipped, and what the scene goes on with follows. No choice is left to
chance: at the first place it is the highest bit, at others the lowest, so that a digit stays a digit and JSON stays
JSON; the last place is in the origin of the job, if the file has one. The job must succeed, a training with the bits of
an undisturbed one. Where the file was the only copy (MAY_FAIL) it may fail instead, by a sentence that names the file.
"""
import os
import re
import signal
import sys

import flips
import invariants
from flips import HOME, WORK, end_processes
from invariants import Broken, run

MAY_FAIL = re.compile("/(secrets[.])?env$")       # the only copy of what the job runs with
PLACES = int(sys.argv[2])
ONLY = re.compile(os.environ.get("BESIDE_FILES", ""))
CPUS = len(os.sched_getaffinity(0))
BEGIN = "exec 9>>{ran}.lock; flock -n 9 || [ $? != 1 ] || echo twice $$ >>{ran}\necho begin $$ >>{ran}\n"
WAIT = "until [ -e {go} ]; do sleep 0.05 9>&-; done\n"
FAIL = "[ -e {ran}.failed ] || { touch {ran}.failed; echo 'as this test wants'; exit 1; }\n"
END = "echo end $$ >>{ran}\n"


def filled(text, name):
    return text.replace("{ran}", "%s/ran/%s" % (WORK, name)).replace("{go}", "%s/go-%s" % (WORK, name))


def go(job):
    open("%s/go-%s" % (WORK, job.name), "w").close()


def pids_of(job, word):
    return [pid for pid in flips.pids_of_home(word) if flips.of_job(pid, job.id)]


def ended(pids):
    flips.until("processes end", flips.END_S, lambda: not set(pids) & set(flips.pids_of_home()))


def daemon():
    code, out, err = run("jobctl", "daemon", "--detach")
    if code != 0:
        raise Broken("the daemon does not start: %s" % (err or out))


def kill(job, word):
    pids = pids_of(job, word)
    end_processes(pids)
    ended(pids)


# ---- scenes: what a job is, how it is brought to its state, and what follows the damage ----

class Script:
    kind, commands, setup, spared = "script", BEGIN + WAIT + END, "", None

    def submit(self, job):
        setup = "setup: |\n%s" % flips.indented(filled(self.setup, job.name)) if self.setup else ""
        return flips.submit(job.name, "script", "resources: {cpus: 1}\n%s\n%srun: |\n%s" % (
            flips.RETRY, setup, flips.indented(filled(self.commands, job.name))), *self.options)

    options = ()

    def ready(self, job):
        return flips.began(job.name)

    def follow(self, job):
        go(job)


class Held(Script):
    options = ("--hold",)

    def ready(self, job):
        return run("jobctl", "show", str(job.id))[0] == 0

    def follow(self, job):
        run("jobctl", "hold", "--off", str(job.id))
        go(job)


class Setup(Script):
    setup, commands = "echo setup >>{ran}.setup\n" + WAIT, BEGIN + END

    def ready(self, job):
        return os.path.exists("%s/ran/%s.setup" % (WORK, job.name))


class Retried(Script):
    commands = BEGIN + WAIT + FAIL + END


class AgentKilled(Script):
    def follow(self, job):
        doomed = pids_of(job, "")
        end_processes(pids_of(job, "jobctl-agent"))
        ended(doomed)
        go(job)


class PowerLost(Script):
    """With `all`, once for the jobs of a batch: the daemon is down when the bit flips."""
    def down(self, batch):
        flips.end_daemon(signal.SIGKILL)
        flips.end_all()

    def up(self):
        daemon()


class DaemonKilled(PowerLost):
    def down(self, batch):
        flips.end_daemon(signal.SIGKILL)


class StoreLost(PowerLost):
    spared = "job.json"         # with it both that know the job would be gone

    def up(self):
        for name in ("jobs.db", "jobs.db-wal", "jobs.db-shm"):
            if os.path.exists("%s/%s" % (HOME, name)):
                os.unlink("%s/%s" % (HOME, name))
        daemon()


class Training(Script):
    kind = "train"

    def submit(self, job):
        job.folder = "%s/leased/%s" % (WORK, job.name)
        return flips.training(job.name, 2, job.folder, **job.calm)

    def ready(self, job):
        if not flips.at_step(job.id, 120):
            return False
        job.ranks = pids_of(job, "jobctl-train")
        end_processes(job.ranks, signal.SIGSTOP)
        return True

    def follow(self, job):
        end_processes(job.ranks, signal.SIGCONT)


class RankKilled(Training):
    def follow(self, job):
        end_processes(job.ranks)


class TrainerLost(Training, PowerLost):
    def follow(self, job):
        pass


class TrainerAgentKilled(Training):
    def follow(self, job):
        end_processes(pids_of(job, "jobctl-agent"))
        end_processes(job.ranks, signal.SIGCONT)


SCENES = {"held": Held, "setup": Setup, "running": Script, "retried": Retried, "agent killed": AgentKilled,
          "daemon killed": DaemonKilled, "power lost": PowerLost, "store lost": StoreLost, "training": Training,
          "rank killed": RankKilled, "trainer's agent killed": TrainerAgentKilled, "trainer's power lost": TrainerLost}


# ---- jobs ----

class Job:
    """One job of a scene; `file`: below its directories, as `where`, or None to see which there are."""
    count = 0

    def __init__(self, scene, calm, file=None, place=0):
        Job.count += 1
        self.name, self.scene, self.calm, self.file, self.place = "j%d" % Job.count, scene, calm, file, place
        self.folder, self.damaged, self.id, self.what = "", [], None, ""

    def folders(self):
        return {"job": "%s/jobs/%d" % (HOME, self.id), **({"dir": self.folder} if self.folder else {})}

    def files(self):
        found = set()
        for key, top in self.folders().items():
            for folder, _, names in os.walk(top):
                for name in names:
                    path = os.path.join(folder, name)
                    if os.path.isfile(path) and not os.path.islink(path) and os.path.getsize(path) and ONLY.search(path):
                        found.add((key, os.path.relpath(path, top)))
        return sorted(found)

    def damage(self):
        if not self.file:
            return
        path = os.path.join(self.folders()[self.file[0]], self.file[1])
        if not os.path.exists(path):            # an earlier checkpoint, which is gone by now
            path = os.path.join(self.folders()["dir"], max(x for k, x in self.files() if k == "dir" and "/" in x
                                                         and os.path.basename(x) == os.path.basename(self.file[1])))
        size = os.path.getsize(path)
        at = 0 if self.place == 0 else (2 * self.place - 1) * size // (2 * (PLACES - 1))
        with open(path, "r+b") as f:
            named = re.search(rb'"origin":"', f.read())
            if named and self.place == PLACES - 1:
                at = named.end()
            f.seek(at)
            old = f.read(1)[0]
            f.seek(at)
            f.write(bytes([old ^ (1 if self.place else 128)]))
        self.damaged = [path]
        self.what = "%s, byte %d" % (os.path.relpath(path, os.path.commonpath([path, WORK])), at)

    def row(self):
        return invariants.ask("show", str(self.id))["job"]

    def why(self):
        return re.sub(r"\s+", " ", run("jobctl", "why", str(self.id))[1])

    def objections(self):
        entry, row, why = invariants.ledger(WORK)[self.id], self.row(), self.why()
        lines = invariants.journal(WORK, self.name)
        yield from invariants.check_runs(self.id, entry, lines)
        yield from invariants.check_end(self.id, entry, row, lines, why, self.damaged)
        if row["result"] == "succeeded" and entry["kind"] == "train":
            yield from invariants.check_training(self.id, entry, row, self.damaged, True)
        if row["result"] == "failed" and not MAY_FAIL.search(self.damaged[0] if self.damaged else ""):
            yield "it failed: %s" % why


def play(scene, batch):
    """Returns the objections."""
    for job in batch:
        job.id = scene.submit(job)
        if job.id is None:
            raise Broken("no submit")
    for job in batch:
        flips.until("job %d comes to its state" % job.id, flips.END_S, lambda: scene.ready(job))    # noqa: B023
    down = isinstance(scene, PowerLost)
    if down:
        scene.down(batch)
    found = [job.files() for job in batch]
    for job in batch:
        job.damage()
    if down:
        scene.up()
    for job in batch:
        scene.follow(job)
    left = lambda: [job for job in batch if job.row()["state"] != "done"]   # noqa: E731
    try:
        flips.until(lambda: "; ".join("%s: %s" % (job.what, job.why()) for job in left()), flips.END_S,
                    lambda: not left(), flips.Progress(lambda: [job.row() for job in batch]))
    except Broken as e:
        for job in left():
            run("jobctl", "cancel", "-q", "--now", str(job.id))
        return found, [str(e)]
    return found, ["%s: %s" % (job.what, sentence) for job in batch for sentence in job.objections()]


def all_of(name, calm):
    scene = SCENES[name]()
    found, objections = play(scene, [Job(scene, calm)])
    jobs = [Job(scene, calm, file, place) for file in found[0] if file[1] != scene.spared
            for place in range(PLACES)]
    for at in range(0, len(jobs), CPUS):
        objections += play(scene, jobs[at:at + CPUS])[1]
    print("beside: %s: %d jobs, %d files: %s" % (name, len(jobs), len(found[0]),
                                                 " ".join(file[1] for file in found[0])), flush=True)
    return ["%s: %s" % (name, sentence) for sentence in objections]


def main():
    names = sys.argv[3:] or list(SCENES)
    for folder in ("ran", "leased", "base"):
        os.makedirs("%s/%s" % (WORK, folder), exist_ok=True)
    os.environ["JOBCTL_LEASE_MS"] = "500"
    objections = []
    try:
        calm = flips.undisturbed()[2] if any(SCENES[name].kind == "train" for name in names) else {}
        daemon()
        for name in names:
            objections += all_of(name, calm)
    except Broken as e:
        objections.append(str(e))
    finally:
        flips.end_all()
    for sentence in objections:
        print("beside: OBJECTION " + sentence)
    sys.exit(bool(objections))


main()
