#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fine-tune as a script around the Trainer of Hugging Face does: its output, its folders, its callback for the end.

    python train.py --output_dir out --max_steps 2000 --save_steps 500
"""
import argparse
import json
import os
import re
import signal
import sys
import time

from batches import get_batch, write_slowly


def get_last_checkpoint(folder):
    found = [d for d in os.listdir(folder) if re.fullmatch(r"checkpoint-\d+", d)]
    return os.path.join(folder, max(found, key=lambda d: int(d.split("-")[1]))) if found else None


class SaveAndStop:
    """A TrainerCallback: when the job is asked to end, the Trainer saves and stops after the step."""

    def __init__(self):
        self.asked = False
        signal.signal(signal.SIGTERM, self.ask)

    def ask(self, *_):
        self.asked = True

    def on_step_end(self, control):
        if self.asked:
            control["should_save"] = control["should_training_stop"] = True


def save(args, step):
    folder = os.path.join(args.output_dir, f"checkpoint-{step}")
    os.makedirs(folder, exist_ok=True)
    write_slowly(os.path.join(folder, "model.safetensors"))
    with open(os.path.join(folder, "trainer_state.json"), "w") as f:
        json.dump({"global_step": step}, f)


def bar(step, steps, start):
    took = time.time() - start
    rate = step / max(took, 1e-9)
    left = int((steps - step) / rate)
    sys.stderr.write(f"\r{step * 100 // steps:3d}%|{'█' * (step * 10 // steps):<10}| {step}/{steps} "
                     f"[{int(took) // 60:02d}:{int(took) % 60:02d}<{left // 60:02d}:{left % 60:02d}, {rate:5.2f}it/s]")
    sys.stderr.flush()


def train(args, last, callback):
    step, start = 0, time.time()
    if last:
        with open(os.path.join(last, "trainer_state.json")) as f:
            step = json.load(f)["global_step"]
        print(f"  Continuing training from global step {step}", file=sys.stderr)
    print("***** Running training *****\n  Num examples = 16,000\n  Num Epochs = 1\n"
          f"  Total optimization steps = {args.max_steps:,}", file=sys.stderr)
    while step < args.max_steps:
        loss = get_batch(step + 1)
        step += 1
        bar(step, args.max_steps, start)
        control = {"should_save": step % args.save_steps == 0, "should_training_stop": False}
        callback.on_step_end(control)
        if step % 10 == 0:
            print({"loss": round(loss, 4), "grad_norm": 0.81, "learning_rate": 5e-05 * (1 - step / args.max_steps),
                   "epoch": round(step / args.max_steps, 2)})
        if control["should_save"]:
            save(args, step)
        if control["should_training_stop"]:
            break
    print({"train_runtime": round(time.time() - start, 4), "train_samples_per_second": 99.5, "train_loss": 1.1})


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--output_dir", required=True)
    p.add_argument("--max_steps", type=int, default=2000)
    p.add_argument("--save_steps", type=int, default=500)
    args = p.parse_args()
    os.makedirs(args.output_dir, exist_ok=True)
    train(args, get_last_checkpoint(args.output_dir), SaveAndStop())


if __name__ == "__main__":
    main()
