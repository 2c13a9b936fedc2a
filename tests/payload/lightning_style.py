#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Train as a script around the Trainer of Lightning does: nested bars, last.ckpt, its own way to hear SIGTERM.

    python fit.py --ckpt_dir checkpoints
"""
import argparse
import json
import os
import signal
import sys
import time

from batches import get_batch, write_slowly

BATCHES, EPOCHS, VALIDATION = 100, 20, 5


class SIGTERMException(SystemExit):
    pass


asked = []


def bar(name, done, total, start, more):
    took = time.time() - start
    rate = done / max(took, 1e-9)
    sys.stderr.write(f"\r{name} {done * 100 // total:3d}%|{'█' * (done * 10 // total):<10}| {done}/{total} "
                     f"[00:{int(took):02d}<00:{int((total - done) / max(rate, 1e-9)) % 60:02d}, {rate:.2f}it/s{more}]")
    sys.stderr.flush()


def validate(start):
    for i in range(1, VALIDATION + 1):
        time.sleep(0.01)
        bar("Validation DataLoader 0:", i, VALIDATION, start, "")


def save(path, epoch, batch):
    """Lightning writes beside, then renames."""
    write_slowly(path + ".part")
    os.replace(path + ".part", path)
    with open(path + ".json.part", "w") as f:
        json.dump({"epoch": epoch, "batch": batch}, f)
    os.replace(path + ".json.part", path + ".json")


def fit(path, epoch, batch):
    while epoch < EPOCHS:
        start = time.time()
        while batch < BATCHES:
            loss = get_batch(epoch * BATCHES + batch + 1)
            batch += 1
            bar(f"Epoch {epoch}:", batch, BATCHES, start, f", v_num=0, train_loss={loss:.3f}")
            if batch % 25 == 0:
                save(path, epoch, batch)
            if asked:
                raise SIGTERMException(143)
        sys.stderr.write("\n")
        validate(time.time())
        epoch, batch = epoch + 1, 0
    print("`Trainer.fit` stopped: `max_epochs=20` reached.")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--ckpt_dir", default="checkpoints")
    args = p.parse_args()
    os.makedirs(args.ckpt_dir, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: asked.append(True))    # the Trainer does this
    path, at = os.path.join(args.ckpt_dir, "last.ckpt"), {"epoch": 0, "batch": 0}
    print("GPU available: False, used: False\n\n  | Name  | Type   | Params\n---------------------------------\n"
          "0 | layer | Linear | 66 K\n---------------------------------\n66 K  Trainable params", file=sys.stderr)
    if os.path.exists(path):                                        # ckpt_path="last"
        with open(path + ".json") as f:
            at = json.load(f)
        print(f"Restored all states from the checkpoint at {path}")
    sys.stderr.write("Sanity Checking DataLoader 0: 100%|██████████| 2/2 [00:00<00:00, 38.46it/s]\n")
    fit(path, **at)


if __name__ == "__main__":
    main()
