#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""plant.py FAULTS KERNELS OUT - a copy of the kernels with every fault of a table in it

Each fault is a branch of its own, taken when $CUDA_CPU_PLANT is its number: one build has all of them.
An entry whose text the file does not have exactly once ends the program: the kernels have changed, and
the entry must follow.
"""
import os
import re
import shutil
import sys


def entries(path):
    text = open(path).read()
    parts = re.split(r"^== ", text, flags=re.M)[1:]
    for number, part in enumerate(parts, 1):
        head, _, rest = part.partition("\n")
        old, _, new = rest.rpartition("\n--")
        name, kind, how, says = (field.strip() for field in head.split("|", 3))
        yield number, name, kind, how, says, old, new.strip()


def planted(kind, number, old, new):
    if kind == "value":
        return f"(cuda_cpu_plant == {number} ? ({new}) : ({old}))"
    return f"{{ if (cuda_cpu_plant == {number}) {{ {new} }} else {{ {old} }} }}"


def main(faults, kernels, out):
    to = os.path.join(out, "kernels")
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(to)
    for name in os.listdir(kernels):
        if name.endswith((".cu", ".cuh", ".h")):
            shutil.copy(os.path.join(kernels, name), to)
    jobs = []
    for number, name, kind, _, _, old, new in entries(faults):
        text = open(os.path.join(kernels, name)).read()
        mark = re.search(r"@\[(.*?)\]@", old, re.S)
        plain = old.replace("@[", "").replace("]@", "")
        if not mark or text.count(plain) != 1:
            sys.exit(f"{faults}: fault {number}: {name} has its text {text.count(plain)} times, not once:\n{plain}")
        at = text.index(plain) + mark.start()
        jobs.append((name, at, at + len(mark.group(1)), planted(kind, number, mark.group(1), new)))
    for name in {job[0] for job in jobs}:
        text = open(os.path.join(kernels, name)).read()
        for _, start, end, new in sorted((j for j in jobs if j[0] == name), key=lambda j: -j[1]):
            text = text[:start] + new + text[end:]
        open(os.path.join(to, name), "w").write(text)


def listing(faults):
    for number, name, _, how, says, _, _ in entries(faults):
        print(number, name, how, says, sep="\t")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--list":
        listing(sys.argv[2])
    else:
        main(*sys.argv[1:4])
