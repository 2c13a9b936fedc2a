# SPDX-License-Identifier: Apache-2.0
# faults_home.py - a home under attack: its commands, its daemon, and the checker, which reads only what a user
# sees: the answers of jobctl, its sentences, its exit codes, and what the jobs themselves have written
import json
import os
import re
import signal
import sqlite3
import subprocess
import time

PATIENCE = int(os.environ.get("TEST_PATIENCE", "1"))
# What no sentence may say: an excuse for a missing cause.
EMPTY_WORDS = re.compile(r"\bbug\b|unknown reason|without a reason|\(null\)|: *$|^ *$|Success$", re.I)


class Violation(Exception):
    pass


def must(holds, sentence):
    if not holds:
        raise Violation(sentence)


def wait_until(what, holds, seconds=60):
    end = time.monotonic() + seconds * PATIENCE
    while True:
        value = holds()
        if value:
            return value
        must(time.monotonic() < end, "not within %d s: %s" % (seconds * PATIENCE, what))
        time.sleep(0.005)


class Home:
    def __init__(self, work, bins, library, page):
        self.work, self.page = work, page
        self.dir = os.path.join(work, "state")
        self.ledger = os.path.join(work, "ledger")
        os.makedirs(self.ledger, exist_ok=True)
        self.env = dict(os.environ, JOBCTL_HOME=self.dir, HOME=work, LD_PRELOAD=library, FAULTS=page.path,
                        PATH=bins + ":" + os.environ["PATH"])
        self.daemon = None
        self.told = {}  # name of a job: its id, None where the submit failed
        self.count = 0

    # commands

    def run(self, *args, seconds=60):
        try:
            return subprocess.run(("jobctl",) + args, env=self.env, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, timeout=seconds * PATIENCE, cwd=self.work)
        except subprocess.TimeoutExpired as e:
            raise Violation("jobctl %s did not end; it said %r" % (" ".join(args), (e.stderr or b"")[-300:]))

    def json(self, *args):
        done = self.run(*args, "--json")
        must(done.returncode == 0, "jobctl %s: exit %d: %s" % (" ".join(args), done.returncode,
                                                               done.stdout + done.stderr))
        return json.loads(done.stdout)

    def jobs(self):
        return self.json("status", "--all", "--number", "10000")["jobs"]

    def job(self, name):
        return self.json("show", name)["job"]

    # the daemon, a child of ours: how it ends is seen

    def start(self):
        """True once it answers; False if it has ended with a sentence instead."""
        ready, writing = os.pipe()
        log = open(os.path.join(self.work, "daemon.out"), "w")
        self.daemon = subprocess.Popen(("jobctl", "daemon", "--ready-fd", str(writing)), env=self.env, stderr=log,
                                       stdout=log, pass_fds=(writing,), cwd=self.work)
        os.close(writing)
        word = os.read(ready, 16)
        os.close(ready)
        if word.startswith(b"ready"):
            return True
        self.ended()
        return False

    def said(self):
        with open(os.path.join(self.work, "daemon.out"), errors="replace") as f:
            return f.read()

    def ended(self):
        """The daemon has ended, or does so now: by itself, with a sentence."""
        code = self.daemon.wait(60 * PATIENCE)
        self.daemon = None
        must(code >= 0, "the daemon died by signal %d: %s" % (-code, self.said()[-300:]))
        must(code in (0, 4), "the daemon ended with %d: %s" % (code, self.said()[-300:]))
        must(code == 0 or not EMPTY_WORDS.search(self.said().strip().split("\n")[-1]),
             "the daemon ended without a cause: %r" % self.said()[-300:])

    def kill(self):
        if self.daemon and self.daemon.poll() is None:
            self.daemon.kill()
            self.daemon.wait()
            self.daemon = None
        elif self.daemon:
            self.ended()

    def stop(self):
        if self.daemon:
            self.daemon.terminate()
            self.ended()

    def restart(self):
        """Without the fault, after the worst end that there is."""
        self.page.disarm()
        self.kill()
        must(self.start(), "the daemon does not start after the fault: %s" % self.said()[-400:])

    # jobs

    def spec(self, run="true", more=""):
        self.count += 1
        name = "j%d" % self.count
        return name, "name: %s\nrun: %s && echo ran >>%s/%s\nresources: {gpus: 0, cpus: 1}\n" \
            "retry: {backoff: 0.02s..0.05s}\n%s" % (name, run, self.ledger, name, more)

    def submit(self, *options, run="true", more=""):
        """Keeps what the command told: the id, or that it failed, which must be one sentence."""
        name, text = self.spec(run, more)
        with open(os.path.join(self.work, "job.yaml"), "w") as f:
            f.write(text)
        done = self.run("submit", "job.yaml", "-q", *options)
        self.clean(done)
        must(done.returncode or done.stdout.strip().isdigit(), "the id was not printed: %r" % done.stdout)
        self.told[name] = int(done.stdout) if done.returncode == 0 else None
        return name

    def clean(self, done):
        """A command succeeds, or fails with one sentence that has a cause."""
        if done.returncode == 0:
            return
        must(done.returncode > 0, "the command died by signal %d" % -done.returncode)
        said = done.stderr.strip()
        must(done.returncode in (1, 3, 4) or "Input/output error" in said, "exit %d: %s" % (done.returncode, said))
        must(said.startswith("jobctl: ") and "\n" not in said or done.returncode == 2, "not one sentence: %r" % said)
        must(not EMPTY_WORDS.search(said), "a sentence without a cause: %r" % said)

    def ran(self, name):
        try:
            with open(os.path.join(self.ledger, name)) as f:
                return len(f.readlines())
        except FileNotFoundError:
            return 0

    def done(self, name):
        def look():
            job = self.job(name)
            return job if job["state"] == "done" else None
        return wait_until("%s is done" % name, look)

    # the checker

    def check(self):
        """No job lost, none doubled, none run twice, no store damaged; what failed says why."""
        must(not self.page.crash, "%s; see %s.crash" % (self.page.crash, self.page.path))
        answer = self.json("status", "--all", "--number", "10000")
        must(not answer.get("store"), "rows and directories differ: %s" % answer.get("store"))
        by_name = {}
        for job in answer["jobs"]:
            must(job["name"] not in by_name, "there are two jobs %s" % job["name"])
            by_name[job["name"]] = job
        for name, number in self.told.items():
            if number is not None:
                must(name in by_name, "job %d, %s, is lost" % (number, name))
                must(by_name[name]["id"] == number, "%s has another id" % name)
        for name, job in by_name.items():
            self.check_job(name, job)

    def check_job(self, name, job):
        ran = self.ran(name)
        must(ran <= 1, "%s has succeeded %d times" % (name, ran))
        must(job["result"] != "succeeded" or ran == 1 or not name.startswith("j"),
             "%s is said to have succeeded and has not run" % name)
        if job["result"] == "failed":
            must(not EMPTY_WORDS.search(job["reason"] or ""), "%s failed without a cause: %r" % (name, job["reason"]))

    def check_store(self):
        path = os.path.join(self.dir, "jobs.db")
        if not os.path.exists(path):
            return
        db = sqlite3.connect("file:%s?mode=ro" % path, uri=True)
        found = [row[0] for row in db.execute("PRAGMA integrity_check")]
        db.close()
        must(found == ["ok"], "the store is damaged: %s" % found[:3])

    def left(self):
        """Processes of this home, without its daemon."""
        own = ("JOBCTL_HOME=" + self.dir).encode()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/environ" % pid, "rb") as f:
                    ours = own in f.read().split(b"\0")
                with open("/proc/%s/stat" % pid) as f:
                    ours = ours and f.read().rpartition(")")[2].split()[0] not in "ZX"
            except OSError:
                continue
            if ours and not (self.daemon and int(pid) == self.daemon.pid):
                yield int(pid)

    def nothing_left(self):
        wait_until("no process is left", lambda: not list(self.left()), 30)

    def close(self):
        self.page.disarm()
        self.kill()
        for pid in list(self.left()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
