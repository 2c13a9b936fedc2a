# SPDX-License-Identifier: Apache-2.0
"""The data of the *_style.py scripts: one batch a step, and, once, the trouble that the test asks for.

TROUBLE="sleep 12" (or spin) in the environment: the batch of step 12 never comes, on rank TROUBLE_RANK (0).  The file
`troubled` says that it has happened, so that the next start is spared.  A save waits while the test holds it.
"""
import os
import time


def get_batch(step):
    kind, _, at = os.environ.get("TROUBLE", "").partition(" ")
    if kind and step == int(at) and os.environ.get("TROUBLE_RANK", "0") == os.environ.get("RANK", "0"):
        fetch_from_a_broken_disk(kind)
    time.sleep(float(os.environ.get("STEP_S", "0.02")))
    return 2.5 / (1 + step / 50)


def fetch_from_a_broken_disk(kind):
    if os.path.exists("troubled"):
        return
    open("troubled", "w").close()
    while kind == "spin":
        pass
    time.sleep(100000)


def write_slowly(path, size=1 << 20):
    """A large file, which takes a while until it is whole."""
    with open(path, "wb") as f:
        f.write(b"w" * size)
        f.flush()
        stay_in_save()
        f.write(b"end")


def stay_in_save():
    """Half of a checkpoint is written.  While there is a file `hold` the rest waits, and `in_save` says so."""
    time.sleep(0.05)
    if os.path.exists("hold"):
        open("in_save", "w").close()
    while os.path.exists("hold"):
        time.sleep(0.01)
