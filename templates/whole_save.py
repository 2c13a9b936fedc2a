# SPDX-License-Identifier: Apache-2.0
"""Run an unchanged script so that torch.save never leaves a partial file: python whole_save.py train.py ARGS...

Each torch.save to a path writes a temporary file next to it and renames that: a reader sees the old file or the new
one, even after a kill.  A SIGTERM during a save takes effect when the file is complete; otherwise it ends the script
at once, as it would without this wrapper.  A script that handles SIGTERM itself keeps its handler.  Processes that the script spawns are not covered.
"""
import os
import runpy
import signal
import sys

import torch

asked = saving = False
write = torch.save


def end(*_):
    global asked
    asked = True
    if not saving:
        sys.exit(128 + signal.SIGTERM)


def save(obj, f, *args, **kwargs):
    global saving
    saving = True
    try:
        save_beside(obj, f, *args, **kwargs)
    finally:
        saving = False
    if asked and signal.getsignal(signal.SIGTERM) is end:
        sys.exit(128 + signal.SIGTERM)


def save_beside(obj, f, *args, **kwargs):
    if not isinstance(f, (str, os.PathLike)):
        return write(obj, f, *args, **kwargs)
    beside = f"{os.fspath(f)}.{os.getpid()}.tmp"
    try:
        write(obj, beside, *args, **kwargs)
        with open(beside, "rb") as file:
            os.fsync(file.fileno())
        os.replace(beside, f)
    finally:
        if os.path.exists(beside):
            os.remove(beside)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python whole_save.py SCRIPT [ARGUMENT...]")
    torch.save = save
    signal.signal(signal.SIGTERM, end)
    del sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
