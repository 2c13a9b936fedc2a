#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""random_cases.py - golden cases of configurations that nobody chose

Draws configurations (patch, heads, widths, norms, rectangles, ragged masks),
runs them through the plain PyTorch twin, and writes them in the format of
tests/golden/sana, so that `jobctl-verify` can be held against models it
was never fitted to.

  random_cases.py DIR [--count N] [--seed N]
"""
import argparse
import json
import os
import struct
import sys

import numpy as np

import sana_torch
import torch


def safetensors_write(path, tensors):
    header, body = {}, b""
    for name, t in tensors.items():
        raw = t.detach().contiguous().to(torch.float32).numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(t.shape),
                        "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + body)


def draw(rng, name, seed):
    """A configuration in the authors' keys."""
    head = int(rng.choice([4, 8, 16, 32]))
    hidden = head * int(rng.choice([1, 2, 3, 5]))
    heads = int(rng.choice([h for h in (1, 2, 3, 4, 5, 8) if hidden % h == 0]))
    patch = int(rng.choice([1, 1, 2]))
    return {
        "model": {"model": "SanaMS", "depth": int(rng.integers(1, 4)), "hidden_size": hidden,
                  "num_heads": heads, "patch_size": patch, "attn_type": "linear",
                  "linear_head_dim": head, "cross_attn_type": "flash", "ffn_type": "glumbconv",
                  "mlp_acts": ["silu", "silu", None],
                  "mlp_ratio": float(rng.choice([1.0, 2.5, 3.3])), "use_pe": False,
                  "qk_norm": bool(rng.integers(2)), "cross_norm": bool(rng.integers(2)),
                  "class_dropout_prob": 0.1, "fp32_attention": True, "mixed_precision": "no"},
        "vae": {"vae_latent_dim": int(rng.choice([3, 16, 32])), "vae_downsample_rate": 32},
        "text_encoder": {"caption_channels": int(rng.integers(3, 60)), "y_norm": True,
                         "y_norm_scale_factor": 0.01, "norm_eps": 1e-5,
                         "model_max_length": int(rng.integers(2, 20))},
        "scheduler": {"train_sampling_steps": 1000, "predict_flow_v": True,
                      "noise_schedule": "linear_flow", "pred_sigma": False, "learn_sigma": False,
                      "flow_shift": float(rng.choice([1.0, 3.0, 4.0, 6.0])),
                      "weighting_scheme": "logit_normal", "logit_mean": 0.0, "logit_std": 1.0},
        "train": {"gradient_clip": 0.1},
        "case": {"latent_hw": [patch * int(rng.integers(1, 8)), patch * int(rng.integers(1, 8))],
                 "batch": int(rng.integers(1, 5)), "seed": seed, "name": name},
    }


def draw_optimizer(rng, config):
    """Some steps instead of gradients.  AdamW: CAME turns gradients that are only rounding into
    full-size steps, and two correct programs soon differ in drawn models."""
    config["case"]["steps"] = int(rng.integers(2, 5))
    config["train"] = {
        "gradient_clip": float(rng.choice([0.1, 1.0])), "lr_schedule": "constant",
        "lr_schedule_args": {"num_warmup_steps": int(rng.integers(0, 4))},
        "optimizer": {"type": "AdamW", "eps": 1e-8, "betas": [0.9, 0.99],
                      "lr": float(rng.choice([1e-4, 1e-3])),
                      "weight_decay": float(rng.choice([0.0, 0.01, 0.1]))}}
    config["text_encoder"]["y_norm_scale_factor"] = 0.5


def inputs(config):
    """Parameters and inputs, fp32."""
    g = torch.Generator().manual_seed(config["case"]["seed"])
    torch.manual_seed(config["case"]["seed"])
    model = sana_torch.SanaMS(config)
    with torch.no_grad():
        for p in model.parameters():       # every gradient flows, and none is tiny
            p.add_(torch.randn(p.shape, generator=g) * 0.1)
    text, (h, w) = config["text_encoder"], config["case"]["latent_hw"]
    batch, length = config["case"]["batch"], text["model_max_length"]

    def latent():
        return torch.randn(batch, config["vae"]["vae_latent_dim"], h, w, generator=g)

    def caption():
        return torch.randn(batch, 1, length, text["caption_channels"], generator=g)

    def mask():                            # real tokens need not be a prefix
        m = (torch.rand(batch, 1, 1, length, generator=g) < 0.6).float()
        m[:, :, :, 0] = 1
        return m

    t = {n: v.detach().clone() for n, v in model.state_dict().items()}
    def training_batch(prefix):
        return {f"{prefix}.x0": latent(), f"{prefix}.noise": latent(), f"{prefix}.y": caption(),
                f"{prefix}.mask": mask(),
                f"{prefix}.t_index": torch.randint(0, 1000, (batch,), generator=g).float(),
                f"{prefix}.drop_ids": (torch.rand(batch, generator=g) < 0.3).float()}

    if "steps" in config["case"]:
        for k in range(config["case"]["steps"]):
            t.update(training_batch(f"step{k}"))
        return t
    t.update({"in.x_t": latent(), "in.y": caption(), "in.mask": mask(),
              "in.timestep": torch.randint(0, 1000, (batch,), generator=g).float()})
    t.update(training_batch("loss"))
    return t


def outputs_steps(config, given, dtype):
    """Losses, norms and weights of a few steps of the optimizer in this precision."""
    t = {n: v.to(dtype) for n, v in given.items()}
    model, flow = sana_torch.SanaMS(config).to(dtype), sana_torch.Flow(config)
    model.load_state_dict({n: t[n] for n in model.state_dict()})
    params, train = list(model.parameters()), config["train"]
    optimizer = sana_torch.optimizer_make(config, params)
    warmup = train["lr_schedule_args"]["num_warmup_steps"]
    losses, norms, lrs, out = [], [], [], {}
    for k in range(config["case"]["steps"]):
        lrs.append(train["optimizer"]["lr"] * (k / warmup if k < warmup else 1.0))
        for group in optimizer.param_groups:
            group["lr"] = lrs[-1]
        optimizer.zero_grad(set_to_none=True)
        s = {n: t[f"step{k}.{n}"] for n in ("x0", "noise", "t_index", "y", "mask", "drop_ids")}
        per_sample = flow.loss(model, s["x0"], s["noise"], s["t_index"].long(), s["y"], s["mask"],
                               s["drop_ids"])
        per_sample.mean().backward()
        norms.append(sana_torch.clip(params, train["gradient_clip"]).item())
        optimizer.step()
        losses.append(per_sample.mean().item())
        out[f"step{k}.per_sample"] = per_sample.detach()
    out.update({"losses": torch.tensor(losses, dtype=dtype), "lrs": torch.tensor(lrs, dtype=dtype),
                "grad_norms": torch.tensor(norms, dtype=dtype)})
    out.update({f"final.{n}": p.detach().clone() for n, p in model.named_parameters()})
    return out


def allow(config, name, error, usual):
    """Room for another correct fp32 program, where PyTorch's own error says that sums cancel."""
    if 16 * error > usual:
        config.setdefault("tolerance", {})[name] = 16 * error


def make_steps(config):
    """As make(); a weight is measured by how far it moved."""
    t = inputs(config)
    single, double = outputs_steps(config, t, torch.float32), outputs_steps(config, t, torch.float64)
    for name, want in double.items():
        final = name.startswith("final.")
        moved = (want - t[name[6:]]).norm().item() if final else want.norm().item()
        error = (single[name].double() - want).norm().item() / (moved or 1.0)
        allowed = 1e-3 if final else 1e-5 if name == "grad_norms" else 1e-6
        allow(config, name, error, allowed)
    t.update(double)
    return t


def outputs(config, given, dtype):
    """What the twin computes from them in this precision."""
    t = {n: v.to(dtype) for n, v in given.items()}
    model, flow = sana_torch.SanaMS(config).to(dtype), sana_torch.Flow(config)
    model.load_state_dict({n: t[n] for n in model.state_dict()})
    keep = {}
    with torch.no_grad():
        out = {"out.model": model(t["in.x_t"], t["in.timestep"], t["in.y"], t["in.mask"], keep=keep)}
    out.update({f"act.{n}": v for n, v in keep.items()})
    index, keep = t["loss.t_index"].long(), {}
    per_sample = flow.loss(model, t["loss.x0"], t["loss.noise"], index, t["loss.y"],
                           t["loss.mask"], t["loss.drop_ids"], keep)
    per_sample.mean().backward()
    out.update({"loss.sigma": flow.sigma[index], "loss.t_model": flow.t_model[index].float(),
                "loss.x_t": keep["x_t"], "loss.output": keep["output"],
                "loss.per_sample": per_sample, "loss.mean": per_sample.mean().view(1)})
    out.update({f"grad.{n}": p.grad.clone() for n, p in model.named_parameters()})
    out["loss.grad_norm"] = sana_torch.clip(list(model.parameters()), 0.1).view(1)
    return out


def make(config):
    """The case: double precision is the truth; where fp32 PyTorch itself is further from it than
    usual (sums that cancel), the case says so for that tensor."""
    t = inputs(config)
    single, double = outputs(config, t, torch.float32), outputs(config, t, torch.float64)
    for name, want in double.items():
        off = single[name].double() - want
        if name.startswith("act.") or name in ("out.model", "loss.output"):
            allow(config, name, off.abs().max().item(), 5e-6)
        elif name.startswith("grad.") or name == "loss.grad_norm":
            allow(config, name, off.norm().item() / (want.norm().item() or 1.0),
                  sana_torch.grad_tolerance(name))
    t.update(double)
    return t


def main():
    args = argparse.ArgumentParser()
    args.add_argument("dir")
    args.add_argument("--count", type=int, default=8)
    args.add_argument("--seed", type=int, default=1)
    args = args.parse_args()
    os.makedirs(args.dir, exist_ok=True)
    rng = np.random.default_rng(args.seed)
    for i in range(args.count):
        name = f"random-{args.seed}-{i}"
        config = draw(rng, name, args.seed * 1000 + i)
        if i % 3 == 2:
            draw_optimizer(rng, config)
        tensors = make_steps(config) if "steps" in config["case"] else make(config)
        safetensors_write(os.path.join(args.dir, name + ".safetensors"), tensors)
        with open(os.path.join(args.dir, name + ".json"), "w") as f:
            json.dump(config, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
