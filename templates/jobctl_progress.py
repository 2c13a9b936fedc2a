# SPDX-License-Identifier: Apache-2.0
"""Report progress to jobctl, so that it can detect a hang: copy this file next to your script.

    from jobctl_progress import enter, work
    for step in range(steps):
        enter(step, "data")         # init data forward backward reduce optimizer checkpoint validate idle
        batch = next(loader)
        enter(step, "forward")
        ...                         # a single enter(step) per step is enough, too
    enter(step, "checkpoint"); work(3, 8)   # progress within a long phase: 3 of 8

It writes the page that JOBCTL_FLIGHT names (engine/contract/flight.h), and does nothing without it.
"""
import mmap, os, struct, time

PHASES = "init data forward backward reduce optimizer checkpoint validate idle".split()
_path = os.environ.get("JOBCTL_FLIGHT")
_page = mmap.mmap(os.open(_path, os.O_RDWR), 16384) if _path and os.path.exists(_path) else None

def _put(offset, *words):
    struct.pack_into("<%dQ" % len(words), _page, offset, *words)

def enter(step, phase="forward"):
    """Report that `phase` begins, after `step` completed steps."""
    if _page is None:
        return
    now, word = time.monotonic_ns(), step << 8 | PHASES.index(phase)
    seq = struct.unpack_from("<Q", _page, 5632)[0]
    _put(5640 + 32 * (seq % 256), seq, now, word, 0)    # the ring of the last 256 phases
    _put(5632, seq + 1)
    _put(24, os.getpid())
    _put(72, now, 0, 0, 0)                              # start of the phase; no work done yet
    _put(64, word)

def work(done, total=0):
    """Report work done in the current phase; while `done` grows, the rank does not count as hung."""
    if _page is not None:
        _put(88, done, total)
