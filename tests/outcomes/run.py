# SPDX-License-Identifier: Apache-2.0
"""run.py - submits the jobs of table.yaml together, breaks what they say, and compares the outcomes.

A document begins with "--- # PLACE: FAULT"; the comments below it are

    # = RESULT CAUSE [generation N] [attempt N] [exit N]    CAUSE is that of the newest generation that failed, or none
    # ~ WORDS             `jobctl why` prints a line that matches them (grep's pattern, blanks and line ends are one)
    # ! break COMMAND     once the job has written NAME.pid; $job is its number; wait.sh is loaded
    # ! logs WORDS      `jobctl logs` does not print them
    # 1 WORDS           the job's reason has them once; # 0 WORDS: it lacks them

and the rest is the spec.  Prints a line for each job, with the time from COMMAND to the event that reports the failure.
"""
import datetime
import json
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))


def jobctl(*arguments):
    done = subprocess.run(["jobctl", *arguments], capture_output=True, encoding="utf-8", check=False)
    return done.stdout + done.stderr if arguments[-1] != "--json" else json.loads(done.stdout)


class Case:
    def __init__(self, head, text):
        self.what = head
        self.wanted, self.words, self.broken, self.absent, self.counts = "", [], "", [], []
        for mark, line in re.findall(r"^# ([=~!01]) (.*)$", text, re.M):
            if mark == "=":
                self.wanted = line
            elif mark == "~":
                self.words.append(line)
            elif line.startswith("break "):
                self.broken = line[len("break "):]
            elif line.startswith("logs "):
                self.absent.append(line[len("logs "):])
            else:
                self.counts.append((int(mark), line))
        self.name = re.search(r"^name: (\S+)$", text, re.M).group(1)
        self.spec = text

    def begin(self):
        path = f"{self.name}.yaml"
        with open(path, "w", encoding="utf-8") as f:
            f.write(self.spec)
        done = subprocess.run(["jobctl", "submit", "-q", path], capture_output=True, encoding="utf-8", check=False)
        if done.returncode:
            sys.exit(f"{self.name} was not submitted: {done.stderr}")
        self.job = done.stdout.strip()
        self.breaker = self.broken and subprocess.Popen(
            ["bash", "-eu", "-c", f'. "{TOP}/tests/e2e/wait.sh"; job={self.job}\n'
             f'wait_for "{self.name}.pid" test -s {self.name}.pid\ndate +%s.%N >{self.name}.broken\n{self.broken}'])

    def problems(self):
        limit = 60 * int(os.environ.get("TEST_PATIENCE", "1"))
        if self.breaker and self.breaker.wait():
            yield f"its command ended with {self.breaker.returncode}"
        jobctl("wait", self.job, "--timeout", str(limit))
        told = jobctl("show", self.job, "--json")
        self.events = jobctl("logs", "--events", self.job, "--json")["events"]
        job = told["job"]
        causes = [e["body"].get("cause", "none") if e["kind"] != "agent_lost" else "agent_lost" for e in self.events]
        causes = [cause for cause in causes if cause != "none"]
        seen = {"generation": job["generation"], "attempt": job["attempt"], "exit": job["exit_code"]}
        keys = dict(re.findall(r"(generation|attempt|exit) (\d+)", self.wanted))
        got = " ".join([str(job["result"]), causes[-1] if causes else "none"] + [f"{k} {seen[k]}" for k in keys])
        if got != self.wanted:
            yield f"it is: {got}"
        why = " ".join(jobctl("why", self.job).split())
        for words in self.words:
            if subprocess.run(["grep", "-q", "-e", words], input=why, encoding="utf-8", check=False).returncode:
                yield f"`jobctl why` does not say: {words}"
        for words in self.absent:
            if words in jobctl("logs", self.job):
                yield f"`jobctl logs` prints: {words}"
        for count, words in self.counts:
            if job["reason"].count(words) != count:
                yield f"not {count} times '{words}' in its reason: {job['reason']}"

    def seconds(self):
        """From the command to the event that reports the failure."""
        at = next((e["at"] for e in self.events if e["kind"] in ("hang", "generation_ended", "agent_lost")), None)
        if not self.broken or not at or " none " in self.wanted:
            return "-"
        with open(f"{self.name}.broken", encoding="utf-8") as f:
            began = float(f.read())
        ended = datetime.datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp()
        return f"{max(0.0, ended - began):.2f} s"


def main():
    with open(os.path.join(HERE, "table.yaml"), encoding="utf-8") as f:
        parts = re.split(r"^--- # (.*)\n", f.read(), flags=re.M)[1:]
    cases = [Case(head, text) for head, text in zip(parts[::2], parts[1::2])]
    began = time.monotonic()
    for case in cases:
        case.begin()
    failed = 0
    for case in cases:
        problems = list(case.problems())
        print(f"{case.what}: {case.wanted} ({case.seconds()})")
        for problem in problems:
            print(f"    FAILED: {case.name}: {problem}")
        if problems:
            failed += 1
            print(jobctl("why", case.job))
    print(f"{len(cases)} cases in {time.monotonic() - began:.0f} s, {failed} failed")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
