# SPDX-License-Identifier: Apache-2.0
# faults.py - lets the n-th call fail, for each n, and checks the state afterwards
#
#   faults.py BIN LIBRARY WORK [--budget S] [--seed N] [--stride K] [--not-memory] [SCENE[:ERROR[:N]] ...]
#
# BIN has the programs, LIBRARY is faults.so, WORK an empty directory.  Without --budget all cases of the scenes
# (faults_scenes.py) are run; with it, cases in the order of the seed until S seconds are over.  A case is a scene,
# a set of calls with the error that one of them gives (or, in a scene that says so, each from that one on), and n.
# Of allocations one from each place is taken: there are too many.  What fails is printed with the words that
# repeat it; exit 1.
import argparse
import ctypes
import os
import random
import shutil
import sys
import time

from faults_home import Home, Violation, wait_until
from faults_page import Page
from faults_scenes import SCENES


class Attack:
    def __init__(self, options):
        self.o, self.cases, self.bad, self.homes = options, 0, [], 0

    def open(self, scene):
        self.homes += 1
        work = os.path.join(os.path.realpath(self.o.work), "%s-%d" % (scene, self.homes))
        os.makedirs(work)
        page = Page(os.path.join(work, "faults.page"))
        home = Home(work, self.o.bin, self.o.library, page)
        return SCENES[scene](home)

    def reopen(self, scene, name):
        """After a violation nothing of the home is to be relied on."""
        scene.home.close()
        if not self.o.keep:
            shutil.rmtree(scene.home.work, ignore_errors=True)
        return self.open(name)

    def places(self, scene, kinds, error):
        """The n of all calls of this scene, or of those worth a case."""
        page, memory = scene.home.page, kinds == ("memory",)
        scene.ready()
        page.arm(scene.program, scene.below, kinds, error, find_sites=memory)
        scene.act()
        calls, sites = page.calls, page.sites
        page.disarm()
        scene.after()
        return sites if memory else list(range(1, calls + 1))

    def case(self, scene, kinds, error, n):
        page, begun = scene.home.page, time.monotonic()
        scene.ready()
        page.arm(scene.program, scene.below, kinds, error, n, scene.times)
        try:
            scene.act()
        finally:
            page.disarm()
        what = page.what
        scene.after()
        scene.home.check()
        self.cases += 1
        if self.o.verbose:
            print("%4d %6.2f s %s" % (n, time.monotonic() - begun, what))

    def tell(self, name, error, n, page, e):
        self.bad.append((name, error, n))
        print("FAILED %s:%s:%d\n    %s\n    %s" % (name, error, n, page.what or "(no call was hit)", e), flush=True)

    def faults_of(self, name, only):
        for kinds, errors in SCENES[name].faults:
            for error in errors:
                if error == only or (not only and not (self.o.not_memory and error == "ENOMEM")):
                    yield kinds, error

    def scene(self, name, only=None, at=None, end=None, pick=None):
        """All its cases, or those of one error, or one; until the time `end`."""
        scene, begun, before = self.open(name), time.monotonic(), self.cases
        try:
            for kinds, error in pick or self.faults_of(name, only):
                numbers = [at] if at else self.places(scene, kinds, error)[::self.o.stride]
                if end:
                    random.shuffle(numbers)
                for n in numbers:
                    if end and time.monotonic() > end:
                        return
                    try:
                        self.case(scene, kinds, error, n)
                    except Violation as e:
                        self.tell(name, error, n, scene.home.page, e)
                        scene = self.reopen(scene, name)
            scene.close()
            scene.home.check_store()
        except Violation as e:
            self.tell(name, only or "-", 0, scene.home.page, e)
        finally:
            scene.home.close()
            print("%-12s %5d cases, %.0f s" % (name, self.cases - before, time.monotonic() - begun), flush=True)

    def rotating(self):
        """Some cases of each of some scenes, others with each seed."""
        random.seed(self.o.seed)
        end = time.monotonic() + self.o.budget
        names = random.sample(sorted(SCENES), len(SCENES))
        for i, name in enumerate(names):
            now = time.monotonic()
            if now < end:
                pick = random.sample(list(self.faults_of(name, None)), 1)
                self.scene(name, end=now + (end - now) / min(3, len(names) - i), pick=pick)


def arguments():
    p = argparse.ArgumentParser()
    for name in ("bin", "library", "work"):
        p.add_argument(name)
    p.add_argument("--budget", type=float)
    p.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "big"))
    p.add_argument("--stride", type=int, default=1, help="each K-th case")
    p.add_argument("--not-memory", action="store_true", help="no allocations")
    p.add_argument("--keep", action="store_true", help="leave the homes of cases that failed")
    p.add_argument("--verbose", action="store_true", help="print each case, its time and the call")
    p.add_argument("scenes", nargs="*")
    return p.parse_intermixed_args()


def main():
    # The same call comes from the same address in each process.
    if not os.environ.get("FAULTS_FIXED"):
        ctypes.CDLL(None).personality(0x0040000)
        os.environ["FAULTS_FIXED"] = "1"
        os.execv(sys.executable, [sys.executable] + sys.argv)
    attack = Attack(arguments())
    if attack.o.budget:
        print("seed %d" % attack.o.seed)
        attack.rotating()
    else:
        for word in attack.o.scenes or SCENES:
            name, error, n = (word.split(":") + [None, None])[:3]
            attack.scene(name, error, n and int(n))
    print("%d cases, %d failed" % (attack.cases, len(attack.bad)))
    sys.exit(1 if attack.bad or not attack.cases else 0)


main()
