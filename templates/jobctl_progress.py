# SPDX-License-Identifier: Apache-2.0
"""Tell jobctl how far this program is, so that it can tell when it hangs: copy this file beside yours.

    from jobctl_progress import enter, work
    for step in range(steps):
        enter(step, "data")         # init data forward backward reduce optimizer checkpoint validate idle
        batch = next(loader)
        enter(step, "forward")
        ...                         # only enter(step) once a step will do, too
    enter(step, "checkpoint"); work(3, 8)   # of what takes long: so much of it is done

It writes the page that JOBCTL_FLIGHT names (engine/contract/flight.h), and does nothing without it.
"""
import mmap, os, struct, time

PHASES = "init data forward backward reduce optimizer checkpoint validate idle".split()
_path = os.environ.get("JOBCTL_FLIGHT")
_page = mmap.mmap(os.open(_path, os.O_RDWR), 16384) if _path and os.path.exists(_path) else None

def _put(offset, *words):
    struct.pack_into("<%dQ" % len(words), _page, offset, *words)

def enter(step, phase="forward"):
    """From now on `phase` of the step after `step` done ones."""
    if _page is None:
        return
    now, word = time.monotonic_ns(), step << 8 | PHASES.index(phase)
    seq = struct.unpack_from("<Q", _page, 5632)[0]
    _put(5640 + 32 * (seq % 256), seq, now, word, 0)    # the ring of the last 256 phases
    _put(5632, seq + 1)
    _put(24, os.getpid())
    _put(72, now, 0, 0, 0)                              # since when; nothing of it is done
    _put(64, word)

def work(done, total=0):
    """So much of the present phase is done; while this grows it does not hang."""
    if _page is not None:
        _put(88, done, total)
