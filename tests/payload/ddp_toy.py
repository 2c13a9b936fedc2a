#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Train a small network with PyTorch DistributedDataParallel over gloo.

Start one process per rank with the environment that torchrun sets (RANK,
WORLD_SIZE, MASTER_ADDR, MASTER_PORT).  Rank 0 writes CKPT_DIR/latest.pt every
few steps; a run that finds it there goes on from it.

    torchrun --nproc_per_node 2 ddp_toy.py --ckpt-dir out --steps 200
"""
import argparse
import datetime
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel


def batch(step, rank, size=32):
    """Points of the plane and the product of their coordinates; a step has the same on every run."""
    g = torch.Generator().manual_seed(step * 1000 + rank)
    x = torch.rand(size, 2, generator=g) * 2 - 1
    return x, (x[:, :1] * x[:, 1:])


def save(path, model, optimizer, step):
    """Beside, synced, then renamed: a reader sees the old file or the new one, never a half."""
    beside = f"{path}.{os.getpid()}.tmp"
    with open(beside, "wb") as f:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "step": step}, f)
        f.flush()
        os.fsync(f.fileno())
    os.replace(beside, path)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--ckpt-dir", default=os.environ.get("JOBCTL_CKPT_DIR", "checkpoints"))
    p.add_argument("--steps", type=int, default=200)
    p.add_argument("--save-every", type=int, default=10)
    p.add_argument("--step-time", type=float, default=0.0, help="sleep so many seconds a step")
    args = p.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    rank, world = dist.get_rank(), dist.get_world_size()

    model = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(),
                          nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    os.makedirs(args.ckpt_dir, exist_ok=True)
    path, start = os.path.join(args.ckpt_dir, "latest.pt"), 0
    if os.path.exists(path):
        state = torch.load(path, map_location="cpu")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start = state["step"]
    print(f"rank {rank} of {world}, pid {os.getpid()}: "
          + (f"resumed at step {start}" if start else "started at step 0"), flush=True)
    ddp = DistributedDataParallel(model)

    for step in range(start + 1, args.steps + 1):
        x, want = batch(step, rank)
        optimizer.zero_grad()
        loss = (ddp(x) - want).pow(2).mean()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0:
            print(f"step {step} loss {mean.item() / world:.6f}", flush=True)
            if step % args.save_every == 0 or step == args.steps:
                save(path, model, optimizer, step)
        time.sleep(args.step_time)
    dist.barrier()
    if rank == 0:
        print(f"finished at step {args.steps}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
