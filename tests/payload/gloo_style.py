# SPDX-License-Identifier: Apache-2.0
# gloo_style.py KIND - two ranks of DDP over gloo. In generation 1 rank 1 falls asleep ("asleep"), or a third rank never
# comes ("missing"); "works" makes a light step each 3 s and prints nothing.
import os
import sys
import time

kind = sys.argv[1]
if kind != "works" and os.environ["JOBCTL_GENERATION"] != "1":
    sys.exit(0)
import torch
import torch.distributed as dist

torch.set_num_threads(1)
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
print(f"rank {rank} joins", flush=True)
dist.init_process_group("gloo", rank=rank, world_size=world + (kind == "missing"))
width = 16 if kind == "works" else 256
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(width, width))
for step in range(8 if kind == "works" else 1000):
    model(torch.randn(64, width)).pow(2).mean().backward()
    if kind == "works":
        time.sleep(3)
    elif rank == 1 and step == 20:
        print("rank 1 falls asleep", flush=True)
        time.sleep(1e6)
if kind == "works":
    print("all steps done", flush=True)
