#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What must hold after every attack, told from what a user sees: answers of commands, and what the jobs wrote.

  invariants.py WORK [DAMAGED...]     JOBCTL_HOME and PATH as for every command; exit 1 and a line per objection

WORK/ledger.jsonl has a line for each job that a submit accepted, {"id", "name", "kind", ...}:

  kind "script"   its command is script(WORK, NAME): a line "begin PID" in WORK/ran/NAME ("twice" before it, if
                  another one runs), then it waits for the file WORK/go, or WORK/go-NAME, then a line "end PID"
  kind "train"    with what an undisturbed run of the same spec came to: "loss" as `status --json` told it, "curve" (the
                  end of metrics.jsonl), "weights" (the digest of its last checkpoint); "folder", if it names one
  "cancelled", "removed": true once we asked for that; "may_fail": the attack explains it if it fails, a word of `why`

DAMAGED are files that were damaged: a job that failed although nobody cancelled it, or that is gone, must be explained
by words that name one of them, or its folder. `told` has all that commands and the daemon's log said.

  1 every command ends in ANSWER_S, with an answer or with a sentence
  2 each job of the ledger is listed, or its loss was told
  3 no job runs again after its end, nor in two attempts at once
  4 who succeeded has written its end; who has written its end did not fail without a word
  5 who trained has the loss and the last checkpoint of an undisturbed run, to the last bit: it went on from one of its
    own (where the store was lost, its curves may be, too: that of metrics.jsonl is compared)
  6 no failure without a reason, no "bug", no trace of a crash
"""
import hashlib
import json
import os
import re
import subprocess
import sys

ANSWER_S = 60 * int(os.environ.get("TEST_PATIENCE", "1"))
NONSENSE = re.compile(r"\bbug:|without a reason|Segmentation|(Address|Thread)Sanitizer|runtime error|assert", re.I)


class Broken(Exception):
    pass


def run(*args, limit=ANSWER_S):
    """A command's exit code and all it said; one that does not end is an objection by itself."""
    try:
        p = subprocess.run(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           timeout=limit)
    except subprocess.TimeoutExpired:
        raise Broken("no answer within %d s: %s" % (limit, " ".join(args)))
    said = p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace")
    if p.returncode < 0 or p.returncode >= 128:
        raise Broken("%s died (%d): %s" % (" ".join(args), p.returncode, said[1][-400:]))
    if p.returncode != 0 and not "".join(said).strip():
        raise Broken("%s ended with %d without a word" % (" ".join(args), p.returncode))
    if NONSENSE.search(said[1]):
        raise Broken("%s says: %s" % (" ".join(args), said[1][-400:]))
    return p.returncode, said[0], said[1]


def ask(*args):
    """The JSON answer of a jobctl command; Broken with its sentence where there is none."""
    code, out, err = run("jobctl", *args, "--json")
    try:
        answer = json.loads(out)
        if "error" not in answer:
            return answer
    except ValueError:
        pass
    raise Broken("jobctl %s: exit %d: %s" % (" ".join(args), code, (err or out).strip()[-600:]))


def script(work, name):
    """The command of a job that can be checked."""
    return ('exec 9>>%(w)s/ran/%(n)s.lock; flock -n 9 || [ $? != 1 ] || echo twice $$ >>%(w)s/ran/%(n)s\n'
            'echo begin $$ >>%(w)s/ran/%(n)s\n'
            'until [ -e %(w)s/go ] || [ -e %(w)s/go-%(n)s ]; do sleep 0.05 9>&-; done\n'
            'echo end $$ >>%(w)s/ran/%(n)s\n' % {"w": work, "n": name})


def ledger(work):
    jobs = {}
    try:
        with open(work + "/ledger.jsonl") as f:
            for line in f:
                entry = json.loads(line)
                jobs.setdefault(entry["id"], {}).update(entry)
    except FileNotFoundError:
        pass
    return jobs


def note(work, **entry):
    """Add to the ledger what was asked of a job."""
    with open(work + "/ledger.jsonl", "a") as f:
        f.write(json.dumps(entry) + "\n")


def journal(work, name):
    try:
        with open("%s/ran/%s" % (work, name)) as f:
            return [line.split() for line in f]
    except FileNotFoundError:
        return []


def names(text, damaged):
    """Do these words name a damaged file: its path, its own name, or the folder of the job that it is in?"""
    flat = re.sub(r"\s+", " ", text)
    return any(part and part in flat for path in damaged
               for part in (path, os.path.basename(path), os.path.dirname(path)))


def said_of(text, job):
    """Do these words speak of that job, by number: "job 7", "1 job (7)", "3-9", "jobs/7"?"""
    if re.search(r"\bjobs?[ /]%d\b|[(, ]%d[,)]" % (job, job), text):
        return True
    return any(int(a) <= job <= int(b) for a, b in re.findall(r"\b(\d+)-(\d+)\b", text))


def weights(folder, step):
    """The digest of the checkpoint of this step, of the files alone: what the manifest claims is not asked."""
    sums = []
    for name in ("model.safetensors", "optimizer.safetensors"):
        try:
            with open("%s/step-%08d/%s" % (folder, step, name), "rb") as f:
                sums.append(hashlib.sha256(f.read()).hexdigest()[:16])
        except FileNotFoundError:
            sums.append("missing")
    return " ".join(sums)


def curve(folder, step):
    """The loss of this step as metrics.jsonl tells it; None where it does not."""
    found = None
    try:
        with open(folder + "/metrics.jsonl", errors="replace") as f:
            for line in f:
                if re.match(r'\{"step":%d,' % step, line):
                    found = (re.search(r'"loss":([^,}]+)', line) or ["", None])[1]
    except FileNotFoundError:
        pass
    return found


def folder_of(job, entry):
    return entry.get("folder") or "%s/jobs/%d/checkpoints" % (os.environ["JOBCTL_HOME"], job)


def check_training(job, entry, row, damaged, curves):
    name, folder = "job %d (%s)" % (job, entry["name"]), folder_of(job, entry)
    if row["loss"] is not None and row["loss"] != entry["loss"]:
        yield "%s ends with a loss of %s, undisturbed %s" % (name, row["loss"], entry["loss"])
    told = curve(folder, entry["steps"])
    if row["loss"] is None and folder + "/metrics.jsonl" not in damaged and told != entry["curve"] and (curves or told):
        yield "%s: its curve ends with a loss of %s, undisturbed %s" % (name, told, entry["curve"])
    last = "%s/step-%08d/" % (folder, entry["steps"])
    if not any(path.startswith(last) for path in damaged) and weights(folder, entry["steps"]) != entry["weights"]:
        yield "%s: its last checkpoint has the digests %s, undisturbed %s" % (
            name, weights(folder, entry["steps"]), entry["weights"])


def check_runs(job, entry, lines):
    ended = None
    for word in lines:
        if word[0] == "begin" and ended:
            yield "job %d (%s) ran again after its end: %s" % (job, entry["name"], lines)
        ended = ended or word[0] == "end"
    if any(word[0] == "twice" for word in lines):
        yield "job %d (%s) ran in two places at once: %s" % (job, entry["name"], lines)
    if sum(word[0] == "end" for word in lines) > 1:
        yield "job %d (%s) came to its end twice: %s" % (job, entry["name"], lines)


def check_end(job, entry, row, lines, why, damaged):
    ended = any(word[0] == "end" for word in lines)
    name = "job %d (%s)" % (job, entry["name"])
    if row["result"] == "succeeded" and entry["kind"] == "script" and not ended:
        yield "%s succeeded, and has not run to its end: %s" % (name, lines)
    if row["result"] == "cancelled" and not entry.get("cancelled"):
        yield "%s was cancelled, and nobody asked for that: %s" % (name, why)
    if row["result"] == "failed" and not entry.get("cancelled"):
        if not re.search(entry.get("may_fail") or "(?!)", why) and not names(why, damaged):
            yield "%s failed, and no word of the cause: %s (damaged: %s)" % (name, why, damaged)
    if NONSENSE.search(why):
        yield "why %d says: %s" % (job, why)


def check(work, damaged=(), told="", curves=True):
    """The objections, as sentences. `told`: what was said before, where losses may have been told. Not `curves`: a
    disk was full, which metrics.jsonl may lack lines of."""
    objections, jobs = [], ledger(work)
    try:
        status = ask("status", "-a", "-n", "10000")
        listed = {row["id"]: row for row in status["jobs"]}
        told += " " + (status.get("store") or "") + " " + run("jobctl", "status")[1]
    except Broken as e:
        return [str(e)]
    for job, entry in jobs.items():
        lines = journal(work, entry["name"])
        objections += check_runs(job, entry, lines)
        if entry.get("removed"):
            continue
        if job not in listed:
            if not said_of(told, job):
                objections.append("job %d (%s) is lost, and nobody said so" % (job, entry["name"]))
            continue
        try:
            code, why, err = run("jobctl", "why", str(job))
            if code != 0:
                objections.append("why %d: exit %d: %s" % (job, code, err.strip()))
            objections += check_end(job, entry, listed[job], lines, re.sub(r"\s+", " ", why), damaged)
            if listed[job]["result"] == "succeeded" and entry["kind"] == "train":
                if listed[job]["loss"] is None and "The store was" not in told and "the store was" not in told:
                    objections.append("job %d (%s) has no loss" % (job, entry["name"]))
                objections += check_training(job, entry, listed[job], damaged, curves)
        except Broken as e:
            objections.append(str(e))
    for job in sorted(set(listed) - set(jobs)):
        if not names(told, damaged) and not said_of(told, job):
            objections.append("job %d (%s) is listed, and nobody submitted it" % (job, listed[job]["name"]))
    return objections


def main():
    objections = check(sys.argv[1], sys.argv[2:])
    for sentence in objections:
        print("invariants: " + sentence)
    sys.exit(bool(objections))


if __name__ == "__main__":
    main()
