#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Train as nanoGPT's train.py does: --key=value, init_from, a ckpt.pt that torch.save writes in its place.

    python train.py config/train_shakespeare_char.py --init_from=resume
"""
import os
import sys
import time

import torch

from batches import get_batch, stay_in_save


class Large:
    """A part of the checkpoint that takes a while to write."""

    def __reduce__(self):
        stay_in_save()
        return int, (0,)


out_dir = "out"
eval_interval = 25
max_iters = 1000
init_from = "scratch"
always_save_checkpoint = False
backend = "nccl"
device = "cuda"
compile = True
for arg in sys.argv[1:]:
    if "=" in arg:
        key, value = arg[2:].split("=")
        globals()[key] = type(globals()[key])(value)
        print(f"Overriding: {key} = {value}")
ddp = int(os.environ.get("RANK", -1)) != -1
if ddp:
    torch.distributed.init_process_group(backend=backend)
    device = "cuda:" + os.environ["LOCAL_RANK"]
    torch.cuda.set_device(device)
os.makedirs(out_dir, exist_ok=True)
print("tokens per iteration will be: 16,384\nfound vocab_size = 65 (inside data/shakespeare_char/meta.pkl)")
iter_num = 0
if init_from == "resume":
    print(f"Resuming training from {out_dir}")
    iter_num = torch.load(os.path.join(out_dir, "ckpt.pt"))["iter_num"]
else:
    print("Initializing a new model from scratch")
print("number of parameters: 10.65M\nnum decayed parameter tensors: 26, with 10,740,096 parameters")
t0 = time.time()
while True:
    if iter_num % eval_interval == 0:
        print(f"step {iter_num}: train loss {2 / (1 + iter_num / 50):.4f}, val loss {2.1 / (1 + iter_num / 50):.4f}")
        if iter_num > 0:
            print(f"saving checkpoint to {out_dir}")
            checkpoint = {"model": torch.zeros(1 << 16), "optimizer": Large(), "iter_num": iter_num}
            torch.save(checkpoint, os.path.join(out_dir, "ckpt.pt"))
    loss = get_batch(iter_num)
    t1 = time.time()
    print(f"iter {iter_num}: loss {loss:.4f}, time {(t1 - t0) * 1000:.2f}ms, mfu 9.22%")
    t0 = t1
    iter_num += 1
    if iter_num > max_iters:
        break
