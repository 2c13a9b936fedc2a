#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""plant.py FAULTS KERNELS OUT - a copy of the kernels with every fault of a table in it, and without each wait

Each fault is a branch of its own, taken when $CUDA_CPU_PLANT is its number: one build has all of them.
An entry whose text the file does not have exactly once ends the program: the kernels have changed, and
the entry must follow.  Behind the faults of the table come those that are drawn from the kernels: each
barrier, and each wait for a copy, left out.

plant.py --list FAULTS KERNELS: a line per fault: number, place, tests by ";", what must be said
"""
import os
import re
import shutil
import sys

WAIT = re.compile(r"(?<!\w)(?:__sync(?:threads|warp)|copy_wait<[^>]*>|copy_commit)\(\);")


class Fault:
    def __init__(self, number, name, kind, how, says, span, old, new):
        self.number, self.name, self.kind, self.how, self.says = number, name, kind, how, says
        self.span, self.old, self.new = span, old, new


def read(kernels, name):
    return open(os.path.join(kernels, name)).read()


def planted(kind, number, old, new):
    if kind == "value":
        return f"(cuda_cpu_plant == {number} ? ({new}) : ({old}))"
    return f"{{ if (cuda_cpu_plant == {number}) {{ {new} }} else {{ {old} }} }}"


def of_table(path, kernels):
    number = 0
    for part in re.split(r"^== ", open(path).read(), flags=re.M)[1:]:
        head, _, rest = part.partition("\n")
        old, _, new = rest.rpartition("\n--")
        name, kind, how, says = (field.strip() for field in head.split("|", 3))
        text, plain = read(kernels, name), old.replace("@[", "").replace("]@", "")
        mark = re.search(r"@\[(.*?)\]@", old, re.S)
        if not mark or text.count(plain) != 1:
            sys.exit(f"{path}: {name} has the text of a fault {text.count(plain)} times, not once:\n{plain}")
        number += 1
        at = text.index(plain) + mark.start()
        yield Fault(number, name, kind, how, says, (at, at + len(mark.group(1))), mark.group(1), new.strip())


def reach_of(path):
    lines = re.findall(r"^reach (\S+) *\| *(.*)$", open(path).read(), flags=re.M)
    return {name: ";".join(how.strip() for how in tests.split(";")) for name, tests in lines}


def of_waits(path, kernels, known):
    reach, number = reach_of(path), max(f.number for f in known)
    for name in sorted(os.listdir(kernels)):
        if not name.endswith((".cu", ".cuh")):
            continue
        for wait in WAIT.finditer(read(kernels, name)):
            span = wait.span()
            if any(f.name == name and f.span[0] < span[1] and span[0] < f.span[1] for f in known):
                continue
            if name not in reach:
                sys.exit(f"{path}: {name} has barriers, and no line `reach {name}` names a test of it")
            number += 1
            yield Fault(number, name, "statement", reach[name], "", span, wait.group(), "")


def all_faults(path, kernels):
    known = list(of_table(path, kernels))
    return known + list(of_waits(path, kernels, known))


def main(path, kernels, out):
    to = os.path.join(out, "kernels")
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(to)
    for name in os.listdir(kernels):
        if name.endswith((".cu", ".cuh", ".h")):
            shutil.copy(os.path.join(kernels, name), to)
    faults = all_faults(path, kernels)
    for name in {f.name for f in faults}:
        text = read(kernels, name)
        here, last, length = sorted((f for f in faults if f.name == name), key=lambda f: -f.span[0]), None, 0
        for f in here:  # those of one place are one in the other
            if last and f.span != last and f.span[1] > last[0]:
                sys.exit(f"{name}: fault {f.number} overlaps another that is not of the same place: {f.old}")
            start, end = f.span if f.span != last else (f.span[0], f.span[0] + length)
            with_it = planted(f.kind, f.number, text[start:end], f.new)
            text, last, length = text[:start] + with_it + text[end:], f.span, len(with_it)
        open(os.path.join(to, name), "w").write(text)


def listing(path, kernels):
    for f in all_faults(path, kernels):
        line = read(kernels, f.name).count("\n", 0, f.span[0]) + 1
        print(f.number, f"{f.name}:{line}", f.how, f.says, sep="\t")


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "--list":
        listing(*sys.argv[2:4])
    else:
        main(*sys.argv[1:4])
