#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mutate.py - plants one small fault at a time in a C source, and reports which of them the tests do not notice

    mutate.py ROOM COUNT SEED [SEEDS]   COUNT faults drawn from the files of a room, judged by the tests that contain
                                        the file; SEEDS worlds of the simulator. A repeated run continues, and judges
                                        survivors again.
    mutate.py --list ROOM COUNT SEED    the same faults as diffs; runs nothing
    mutate.py --known N|all             faults of known.txt; N: other ones with each commit; 0: do all fit the code?

A mutant is compiled below build/mutants and linked before the libraries, so that no source of the checkout changes.
"""
import collections
import difflib
import glob
import hashlib
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/|(?<![^\n])[ \t]*\#(?:\\.|[^\\\n])*)
      | (?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
      | (?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<op><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)""", re.X | re.S)
OTHER = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&",
         "true": "false", "false": "true"}
KEYWORDS = set("if else for while do switch case default return break continue goto sizeof typeof static const struct "
               "enum union unsigned signed void char short int long float double bool volatile extern inline".split())
ASSIGN = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--"}
WEIGHTS = {"relation": 4, "negate": 3, "delete": 6, "constant": 2, "return": 2, "jump": 1, "sign": 1}
NOTHING = "(void)0"  # an empty statement is a warning after an if
SLOWER = 10          # a test that takes longer than this many times its usual time, and 20 s, has noticed
HERE, WORK = os.path.dirname(__file__), "build/mutants"
Token = collections.namedtuple("Token", "type text at")


def partner(tokens, i, step=1):
    """The index of the bracket that belongs to the one at i; step -1: looks back."""
    depth = 0
    while 0 <= i < len(tokens):
        depth += (tokens[i].text in "([{") - (tokens[i].text in ")]}")
        if depth == 0:
            return i
        i += step
    return len(tokens) - 1 if step > 0 else 0


def bodies(tokens):
    """The first and last token of each function's body."""
    i = 0
    while i < len(tokens):
        if tokens[i].text == "{":
            end = partner(tokens, i)
            if tokens[i - 1].text == ")":
                yield i, end
            i = end
        i += 1


def is_value(tokens, i):
    if tokens[i].text == ")":  # not a cast
        return any(t.type == "name" and t.text not in KEYWORDS and not t.text.endswith("_t") or t.type == "number"
                   for t in tokens[partner(tokens, i, -1):i])
    return tokens[i].type == "number" or tokens[i].text == "]" or \
        tokens[i].type == "name" and tokens[i].text not in KEYWORDS


def statement_end(tokens, i, last):
    """The index of the semicolon behind the call or assignment that begins at i; None: it is something else."""
    first, second, third = (tokens[min(i + k, last)] for k in range(3))
    if first.text in KEYWORDS or not (first.type == "name" or first.text in ("*", "(", "++", "--")) or \
       first.type == "name" and (second.type == "name" or second.text == "*" and third.type != "number"):
        return None
    assigns = first.text in ASSIGN
    j = i
    while j < last and tokens[j].text != ";":
        if tokens[j].text in (")", "]", "}") or tokens[j].text in ("{", ":") and not assigns:
            return None
        assigns = assigns or tokens[j].text in ASSIGN
        j = partner(tokens, j) + 1 if tokens[j].text in "([{" else j + 1
    return j if assigns or second.text == "(" and partner(tokens, i + 1) == j - 1 else None


def is_size(tokens, i):
    """Is the number at i a part of a declared size or of an allocation, where one more changes nothing?"""
    depth, j = 0, i
    while j > 0 and tokens[j].text not in (";", "{", "}") and depth >= 0:
        depth += (tokens[j].text in ")]") - (tokens[j].text in "([")
        j -= 1
    if tokens[j + 1].text == "(":
        return tokens[j].text in ("malloc", "calloc", "realloc")
    if tokens[j + 1].text != "[":
        return False
    while j > 0 and tokens[j].text not in (";", "{", "}", "=", "(", "->", "."):
        j -= 1
    return tokens[j].text in (";", "{", "}") and tokens[j + 1].type == tokens[j + 2].type == "name"


def sites(source):
    """(kind, start, end, replacement) of each place where a fault fits, but for memory that is not freed, or not
    there: those are found by sanitizers and tests/attack.
    """
    tokens = [Token(m.lastgroup, m.group(), m.start()) for m in TOKEN.finditer(source) if m.lastgroup != "skip"]
    for first, last in bodies(tokens):
        for i in range(first + 1, last):
            t, before, after = tokens[i], tokens[i - 1], tokens[i + 1]
            end = t.at + len(t.text)
            if t.type in ("op", "name") and t.text in OTHER:
                yield "relation", t.at, end, OTHER[t.text]
            elif t.text in ("+", "-") and is_value(tokens, i - 1):
                yield "sign", t.at, end, "-" if t.text == "+" else "+"
            elif t.type == "number" and re.fullmatch(r"\d+[uUlL]*|0x[0-9a-fA-F]+", t.text):
                digits = t.text.rstrip("uUlL")
                if not is_size(tokens, i):
                    yield "constant", t.at, end, str(int(digits, 0 if "x" in digits else 10) + 1) + t.text[len(digits):]
            elif t.text == "return" and [x.text for x in tokens[i + 1:i + 4]] == ["-", "1", ";"]:
                yield "return", t.at, tokens[i + 3].at, "return 0"
            elif t.text == "return" and re.match(r"err_\w+$|fail", after.text) and tokens[i + 2].text == "(" and \
                    tokens[i + 5].text != "ERR_MEMORY":
                close = tokens[partner(tokens, i + 2)].at + 1
                yield "return", t.at, close, "return (%s, 0)" % source[after.at:close]
            elif t.text in ("if", "while") and after.text == "(":
                close = tokens[partner(tokens, i + 1)].at + 1
                yield "negate", after.at, close, "(!%s)" % source[after.at:close]
            elif t.text in ("break", "continue") and after.text == ";":
                yield "jump", t.at, end, NOTHING
            if before.text in (";", "{", "}", "else") or \
               before.text == ")" and tokens[partner(tokens, i - 1, -1) - 1].text in ("if", "for", "while"):
                semicolon = statement_end(tokens, i, last)
                if semicolon and t.text not in ("free", "json_decref"):
                    yield "delete", t.at, tokens[semicolon].at, NOTHING


class Mutant:
    def __init__(self, path, source, start, end, new):
        self.path, self.line, self.tests = path, source.count("\n", 0, start) + 1, None
        self.text = source[:start] + new + source[end:]
        words = [" ".join(w.split()) for w in (source[start:end], new)]
        self.name = "%s:%d\t%s -> %s" % (path, self.line, *words)
        self.diff = "".join(difflib.unified_diff(source.splitlines(True), self.text.splitlines(True), "a/" + path,
                                                 "b/" + path, n=1))


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def drawn(room, count, seed):
    """Faults in different lines: a file by its size, a kind by its weight, a place of that kind."""
    dice, places = random.Random(seed), {}
    for path in sorted(glob.glob(room + "/*.c")):
        by_kind = collections.defaultdict(list)
        for s in sites(read(path)) if os.path.exists("build/obj/" + path[:-2] + ".o") else ():  # else in no library
            by_kind[s[0]].append(s)
        if by_kind:
            places[path] = by_kind
    if not places:
        sys.exit("mutate.py: there is no code in %s; ROOM is a folder such as controller/job" % room)
    paths, found = sorted(places), {}
    sizes = [sum(map(len, places[p].values())) for p in paths]
    for _ in range(100 * count):
        path = dice.choices(paths, sizes)[0]
        kinds = sorted(places[path])
        m = Mutant(path, read(path), *dice.choice(places[path][dice.choices(kinds, [WEIGHTS[k] for k in kinds])[0]])[1:])
        found.setdefault((path, m.line), m)
        if len(found) == count:
            break
    return list(found.values())


def known():
    """Those of known.txt, each with its tests."""
    for part in re.split(r"^== ", read(HERE + "/known.txt"), flags=re.M)[1:]:
        path, _, tests = (w.strip() for w in part.partition("\n")[0].partition("|"))
        old, new = ("\n".join(re.findall(r"^\%s (.*)$" % c, part, re.M)) for c in "-+")
        source = read(path) if os.path.exists(path) else ""
        if not old or source.count(old) != 1:
            sys.exit("tests/mutants/known.txt: %s has this text %d times, expected once:\n%s\nChange the entry as the "
                     "code has changed, or delete it if there is no such code any more." % (path, source.count(old), old))
        at = source.index(old)
        m = Mutant(path, source, at, at + len(old), new)
        m.tests = ["build/obj/tests/" + t for t in tests.split()]
        yield m


def rotated(which, mutants):
    if which == "all":
        return mutants
    commits = subprocess.run(["git", "rev-list", "--count", "HEAD"], capture_output=True, text=True).stdout.strip()
    first = int(commits or 0) * int(which)
    return [mutants[(first + i) % len(mutants)] for i in range(min(int(which), len(mutants)))]


def run(command, limit=600):
    """(exit code, output); -1: it took too long. Ends what it started."""
    p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         start_new_session=True, text=True, errors="replace")
    try:
        return p.communicate(timeout=limit)[0], p.returncode
    except subprocess.TimeoutExpired:
        return "", -1
    finally:
        try:
            os.killpg(p.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        p.wait()


class Builder:
    """Compiles and links as make does, into a folder of its own."""

    def __init__(self, folder):
        self.folder, self.commands, self.bare, self.usual = folder, {}, {}, {}
        self.environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
        shutil.rmtree(folder, ignore_errors=True)
        for name in ("bin", "obj/tests"):
            os.makedirs("%s/%s" % (folder, name))
        for name in glob.glob("build/bin/*") + ["build/lib", "build/obj/tests/fake"]:
            os.symlink(os.path.abspath(name), "%s/%s" % (folder, name[6:]))

    def command(self, source, target):
        """The words of make's command for this target."""
        if target not in self.commands:
            out = subprocess.run(["make", "-n", "V=1", "-W", source, target], capture_output=True, text=True,
                                 env=self.environment).stdout
            lines = [line for line in out.replace("\\\n", " ").splitlines() if " -o %s " % target in line + " "]
            if not lines:
                sys.exit("mutate.py: make has no command for %s" % target)
            self.commands[target] = shlex.split(lines[-1])
        return list(self.commands[target])

    def objects(self, m):
        """(object of the mutant or None, is it another program than the source?)"""
        target, path = "build/obj/" + m.path[:-2] + ".o", self.folder + "/src/" + m.path
        os.makedirs(os.path.dirname(path), exist_ok=True)

        def made(text):
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            words = [path if w == m.path else path[:-2] + ".o" if w == target else w for w in self.command(m.path, target)]
            if run(words)[1] != 0:
                return None
            run(["strip", "-g", "-o", path + ".bare", path[:-2] + ".o"])
            with open(path + ".bare", "rb") as f:
                return f.read()
        if m.path not in self.bare:
            self.bare[m.path] = made(read(m.path))
        code = made(m.text)
        return (path[:-2] + ".o" if code else None), code != self.bare[m.path]

    def link(self, source, target, mutant):
        """The program with the mutant in place of its own object, or None: the test has functions of this name, in
        place of those. Sources of tests are compiled once.
        """
        out, words = self.folder + target[5:], []
        os.makedirs(os.path.dirname(out), exist_ok=True)
        command = self.command(source, target)
        flags = [w for w in command[1:command.index("-o")] if not w.startswith("-Wl,")]
        for w in command:
            if w.endswith(".c"):
                made = self.folder + "/tests/" + w[:-2].replace("/", "-") + ".o"
                if not os.path.exists(made):
                    os.makedirs(os.path.dirname(made), exist_ok=True)
                    run(command[:1] + flags[:flags.index("-MF")] + ["-c", "-o", made, w] if "-MF" in flags else
                        command[:1] + flags + ["-c", "-o", made, w])
                words += [made]
            else:
                words += [mutant, w] if w.endswith(".a") and mutant not in words else [out if w == target else w]
        if os.path.islink(out):
            os.remove(out)
        text, code = run(words)
        if code != 0 and "multiple definition" not in text:
            sys.exit("%s\nmutate.py: cannot link %s" % (text, target))
        return out if code == 0 else None


def contains(program, symbols, cache={}):
    if program not in cache:
        cache[program] = set(re.findall(r" (\w+)$", run(["nm", program])[0], re.M)) if os.path.exists(program) else set()
    return bool(symbols & cache[program])


def judges(m):
    """The programs whose tests are to notice it: of its room, those that include its header, and the simulators."""
    room, stem = os.path.dirname(m.path), os.path.basename(m.path)[:-2]
    if m.tests:
        return m.tests
    found = []
    for source in sorted(glob.glob("tests/unit/**/test_*.c", recursive=True)) + \
            sorted(glob.glob("tests/process/**/test_*.c", recursive=True)):
        near = os.path.dirname(source).split("/", 2)[2] == room
        if near or '#include "%s.h"' % m.path[:-2] in read(source):
            found.append("build/obj/" + source[:-2])
    found.sort(key=lambda t: (stem.startswith(os.path.basename(t)[5:]) is False, "/process/" in t))
    return found + ["build/obj/tests/sim/" + name for name in ("sim_agent", "sim_control")]


def passes(b, test, program, seeds):
    """Does it pass with this program, in about the time that it takes without a fault?"""
    def tried(name, limit):
        worlds = int(seeds) * (5 if name.endswith("/sim_agent") else 1)
        return run([name, str(worlds)] if "/sim/" in name else ["tests/run_units.sh", name], limit)
    if test not in b.usual:
        begin = time.monotonic()
        out, code = tried(test, 600)
        if code != 0:
            sys.exit("%s\nmutate.py: %s fails without a fault" % (out, test))
        b.usual[test] = time.monotonic() - begin
    return tried(program, 20 + SLOWER * b.usual[test])[1] == 0


def judge(b, m, seeds):
    """(result, the test that noticed it or "")"""
    made, differs = b.objects(m)
    if not made:
        return "not compiled", ""
    if not differs:
        return "equivalent", ""
    tried = None
    symbols = set(re.findall(r" [TDBR] (\w+)$", run(["nm", made])[0], re.M))
    programs = [t for t in judges(m) if m.tests or contains(t, symbols)]
    links = [p for p in ("jobctl", "jobctl-agent") if contains("build/bin/" + p, symbols)]
    for t in programs:
        source = t[len("build/obj/"):] + ".c"
        if "/process/" in t or "/sim/" not in t and "agent_fixture" in read(source):
            for p in links:
                b.link({"jobctl": "controller", "jobctl-agent": "agent"}[p] + "/main.c", "build/bin/" + p, made)
            links = []
        program = b.link(source, t, made)
        if program and not passes(b, t, program, seeds):
            return "noticed", t[len("build/obj/tests/"):]
        tried = tried or program
    return ("survived" if tried else "no test"), ""


def main():
    args = sys.argv[1:]
    if args[:1] == ["--known"] and len(args) == 2:
        b, bad, mutants = Builder(WORK + "/known"), 0, rotated(args[1], list(known()))
        for m in mutants:
            result, by = judge(b, m, 40)
            print("  %s: %s %s" % (m.name.split("\t")[0], result, by), flush=True)
            if result != "noticed":
                print("%sFAILED: %s does not notice this fault" % (m.diff, " ".join(m.tests)))
                bad += 1
        if mutants:
            print("%d known faults planted, %d not noticed" % (len(mutants), bad))
        sys.exit(bad > 0)
    if len(args) not in (3, 4):
        sys.exit(__doc__)
    room, count, seed = (args[1:] if args[0] == "--list" else args)[:3]
    mutants = drawn(room.rstrip("/"), int(count), int(seed))
    if args[0] == "--list":
        print("\n".join(m.diff for m in mutants))
        return
    folder = "%s/%s.%s" % (WORK, room.strip("/").replace("/", "-"), seed)
    results, log = collections.Counter(), folder + ".txt"
    before = {}
    for line in read(log).splitlines() if os.path.exists(log) else []:
        key, _, result = line.rpartition("\t")
        before[key] = result
    b = Builder(folder)
    for n, m in enumerate(mutants, 1):
        key = hashlib.sha256(m.text.encode()).hexdigest()[:12] + "\t" + m.name
        result = before.get(key, "")
        if not result or result in ("survived", "no test"):
            result, by = judge(b, m, args[3] if len(args) > 3 else 40)
            with open(log, "a", encoding="utf-8") as f:
                f.write("%s\t%s\n" % (key, (result + " by " + by) if by else result))
            print("%d/%d %s %s: %s" % (n, len(mutants), result, by, m.name), flush=True)
        results[result.split(" by ")[0]] += 1
    counted = results["noticed"] + results["survived"] + results["no test"]
    print("%s, seed %s: %d of %d survived; %d more are the same program, %d do not compile; %s" %
          (room, seed, counted - results["noticed"], counted, results["equivalent"], results["not compiled"], log))


if __name__ == "__main__":
    main()
