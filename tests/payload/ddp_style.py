#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A plain DistributedDataParallel loop: ranks from the environment, a save every few steps and one at the end.

    torchrun --nproc_per_node 2 ddp.py --out out
"""
import argparse
import os
import signal

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from batches import get_batch, write_slowly

asked = []


def save(path, model, step):
    write_slowly(path + ".tmp")         # stands for the optimizer of a large model
    torch.save({"model": model.state_dict(), "step": step}, path + ".tmp")
    os.replace(path + ".tmp", path)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out", default="out")
    p.add_argument("--steps", type=int, default=1000)
    p.add_argument("--save_every", type=int, default=25)
    args = p.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
    model, path, start = torch.nn.Linear(2, 1), os.path.join(args.out, "latest.pt"), 0
    if os.path.exists(path):
        state = torch.load(path, map_location="cpu")
        model.load_state_dict(state["model"])
        start = state["step"]
    print(f"rank {dist.get_rank()} begins after step {start}", flush=True)
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    for step in range(start + 1, args.steps + 1):
        get_batch(step)
        loss = ddp(torch.ones(4, 2)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        stop = torch.tensor(len(asked))
        dist.all_reduce(stop)           # all ranks end after the same step
        if dist.get_rank() == 0:
            print(f"step {step}/{args.steps} loss {loss.item():.4f}", flush=True)
            if stop or step % args.save_every == 0:
                print("saving", flush=True)
                save(path, model, step)
        if stop:
            break
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
