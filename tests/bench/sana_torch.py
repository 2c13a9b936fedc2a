#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""sana_torch.py - the peer: SanaMS, its loss and its optimizers in plain PyTorch

The engine is compared with this file and with nothing weaker, so it must be
right (it passes the golden cases) and it must be at its best: on the CPU two
torch threads, one OpenBLAS thread, fused attention mask, foreach AdamW; on a GPU
bf16 autocast around the forward pass, the fused attention of PyTorch, fused
AdamW, the faster of two memory formats for the convolutions, and at will
torch.compile.  It needs torch and numpy, nothing else.

  sana_torch.py verify CASE.json...
  sana_torch.py bench --case NAME [--config FILE] [--steps N] [--warmup N] [--threads N] [--json]
                      [--device cuda] [--bf16] [--compile] [--batch N] [--peak TFLOPS]
"""
import os

# Two thread pools on the same cores cost a third of the speed: OpenBLAS keeps to one thread.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import math
import statistics
import struct
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
CONFIGS = os.path.join(HERE, "..", "golden", "sana", "bench_configs.json")
T_WIDTH = 256        # width of the timestep embedding


def safetensors_read(path):
    """All tensors of a file as float32 or float64 torch tensors, by name."""
    kinds = {"F32": np.float32, "F64": np.float64}
    with open(path, "rb") as f:
        (size,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(size))
        body = f.read()
    out = {}
    for name, t in header.items():
        if name == "__metadata__":
            continue
        if t["dtype"] not in kinds:
            raise ValueError(f"{path}: {name} is {t['dtype']}; this reader knows F32 and F64")
        begin, end = t["data_offsets"]
        flat = np.frombuffer(body[begin:end], dtype=kinds[t["dtype"]])
        out[name] = torch.from_numpy(flat.reshape(t["shape"]).copy())
    return out


# ---- the model -------------------------------------------------------------------------------

class RMSNorm(nn.Module):
    def __init__(self, dim, scale=1.0, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.full((dim,), float(scale)))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class LinearAttention(nn.Module):
    """ReLU attention in O(N): keys and values are summed over tokens before they meet a query."""

    def __init__(self, dim, head_dim, qk_norm):
        super().__init__()
        self.heads, self.head_dim = dim // head_dim, head_dim
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim)
        self.q_norm = RMSNorm(dim) if qk_norm else nn.Identity()
        self.k_norm = RMSNorm(dim) if qk_norm else nn.Identity()

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, c).unbind(2)
        q, k = F.relu(self.q_norm(q)), F.relu(self.k_norm(k))
        q, k, v = (t.transpose(1, 2).reshape(b, self.heads, self.head_dim, n) for t in (q, k, v))
        with torch.autocast(x.device.type, enabled=False):     # as the authors have it
            q, k, v = (t.to(self.proj.weight.dtype) for t in (q, k, v))
            vk = F.pad(v, (0, 0, 0, 1), value=1.0) @ k.transpose(-1, -2)
            out = vk @ q
            out = out[:, :, :-1] / (out[:, :, -1:] + 1e-8)
        return self.proj(out.reshape(b, c, n).transpose(1, 2))


class CrossAttention(nn.Module):
    fused = False        # torch's own kernel, where it has one

    def __init__(self, dim, heads, cross_norm):
        super().__init__()
        self.heads, self.head_dim = heads, dim // heads
        self.q_linear = nn.Linear(dim, dim)
        self.kv_linear = nn.Linear(dim, 2 * dim)
        self.proj = nn.Linear(dim, dim)
        self.q_norm = RMSNorm(dim, eps=1e-6) if cross_norm else nn.Identity()
        self.k_norm = RMSNorm(dim, eps=1e-6) if cross_norm else nn.Identity()

    def forward(self, x, y, mask):
        b, n, c = x.shape
        k, v = self.kv_linear(y).chunk(2, dim=-1)
        q, k = self.q_norm(self.q_linear(x)), self.k_norm(k)
        q, k, v = (t.reshape(b, -1, self.heads, self.head_dim).transpose(1, 2) for t in (q, k, v))
        if self.fused:
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask.view(b, 1, 1, -1) > 0)
            return self.proj(out.transpose(1, 2).reshape(b, n, c))
        score = q @ k.transpose(-1, -2) * (1.0 / math.sqrt(self.head_dim))
        score = torch.softmax(score + (1.0 - mask.view(b, 1, 1, -1)) * -10000.0, dim=-1)
        return self.proj((score @ v).transpose(1, 2).reshape(b, n, c))


class ConvLayer(nn.Module):
    def __init__(self, *args, **kwargs):
        super().__init__()
        self.conv = nn.Conv2d(*args, **kwargs)

    def forward(self, x):
        return self.conv(x)


class MixFFN(nn.Module):
    channels_first = False        # copied to NCHW before the convolutions; else it is NHWC as it lies

    def __init__(self, dim, hid):
        super().__init__()
        self.inverted_conv = ConvLayer(dim, 2 * hid, 1)
        self.depth_conv = ConvLayer(2 * hid, 2 * hid, 3, padding=1, groups=2 * hid)
        self.point_conv = ConvLayer(hid, dim, 1, bias=False)

    def forward(self, x, h, w):
        b, n, c = x.shape
        x = x.transpose(1, 2).reshape(b, c, h, w)
        if self.channels_first:
            x = x.contiguous()
        a, g = self.depth_conv(F.silu(self.inverted_conv(x))).chunk(2, dim=1)
        return self.point_conv(a * F.silu(g)).reshape(b, c, n).transpose(1, 2)


class Block(nn.Module):
    def __init__(self, m):
        super().__init__()
        dim = m["hidden_size"]
        self.scale_shift_table = nn.Parameter(torch.randn(6, dim) / math.sqrt(dim))
        self.attn = LinearAttention(dim, m["linear_head_dim"], m["qk_norm"])
        self.cross_attn = CrossAttention(dim, m["num_heads"], m["cross_norm"])
        self.mlp = MixFFN(dim, int(dim * m["mlp_ratio"]))

    def forward(self, x, y, mask, t0, h, w, keep):
        b, _, c = x.shape
        s1, k1, g1, s2, k2, g2 = (self.scale_shift_table + t0.view(b, 6, c)).chunk(6, dim=1)
        a = self.attn(F.layer_norm(x, (c,), eps=1e-6) * (1 + k1) + s1)
        x = x + g1 * a
        ca = self.cross_attn(x, y, mask)
        x = x + ca
        f = self.mlp(F.layer_norm(x, (c,), eps=1e-6) * (1 + k2) + s2, h, w)
        x = x + g2 * f
        if keep is not None:
            keep.update({"attn": a, "cross_attn": ca, "mlp": f, "": x})
        return x


class FinalLayer(nn.Module):
    def __init__(self, dim, out):
        super().__init__()
        self.scale_shift_table = nn.Parameter(torch.randn(2, dim) / math.sqrt(dim))
        self.linear = nn.Linear(dim, out)

    def forward(self, x, t):
        c = x.shape[-1]
        shift, scale = (self.scale_shift_table + t[:, None]).chunk(2, dim=1)
        return self.linear(F.layer_norm(x, (c,), eps=1e-6) * (1 + scale) + shift)


class PatchEmbed(nn.Module):
    def __init__(self, channels, dim, patch):
        super().__init__()
        self.proj = nn.Conv2d(channels, dim, patch, stride=patch)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class TimestepEmbed(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(T_WIDTH, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, timestep):
        half = T_WIDTH // 2
        freqs = torch.exp(-math.log(10000.0) * torch.arange(half, dtype=torch.float32,
                                                             device=timestep.device) / half)
        arg = timestep.long().to(torch.float32)[:, None] * freqs[None]
        arg = torch.cat([torch.cos(arg), torch.sin(arg)], dim=-1)
        return self.mlp(arg.to(self.mlp[0].weight.dtype))


class CaptionProj(nn.Module):
    def __init__(self, dim, width):
        super().__init__()
        self.fc1 = nn.Linear(width, dim)
        self.fc2 = nn.Linear(dim, dim)

    def forward(self, y):
        return self.fc2(F.gelu(self.fc1(y), approximate="tanh"))


class CaptionEmbed(nn.Module):
    def __init__(self, dim, width, length):
        super().__init__()
        self.register_buffer("y_embedding", torch.randn(length, width) / math.sqrt(width))
        self.y_proj = CaptionProj(dim, width)

    def forward(self, y, drop):
        if drop is not None:
            y = torch.where(drop.view(-1, 1, 1, 1).bool(), self.y_embedding[:y.shape[2]], y)
        return self.y_proj(y)


class SanaMS(nn.Module):
    def __init__(self, config):
        super().__init__()
        m, text = config["model"], config["text_encoder"]
        dim, self.patch = m["hidden_size"], m["patch_size"]
        self.channels = config["vae"]["vae_latent_dim"]
        self.x_embedder = PatchEmbed(self.channels, dim, self.patch)
        self.t_embedder = TimestepEmbed(dim)
        self.t_block = nn.Sequential(nn.SiLU(), nn.Linear(dim, 6 * dim))
        self.y_embedder = CaptionEmbed(dim, text["caption_channels"], text["model_max_length"])
        self.attention_y_norm = RMSNorm(dim, text["y_norm_scale_factor"], text["norm_eps"])
        self.blocks = nn.ModuleList(Block(m) for _ in range(m["depth"]))
        self.final_layer = FinalLayer(dim, self.patch * self.patch * self.channels)

    def forward(self, x, timestep, y, mask, drop=None, keep=None):
        p = self.patch
        h, w = x.shape[2] // p, x.shape[3] // p
        x = self.x_embedder(x)
        t = self.t_embedder(timestep)
        t0 = self.t_block(t)
        ye = self.y_embedder(y, drop)
        y = self.attention_y_norm(ye)
        if keep is not None:
            keep.update({"x_embedder": x, "t_embedder": t, "t_block": t0, "y_embedder": ye,
                         "attention_y_norm": y})
        y = y.squeeze(1)
        for i, block in enumerate(self.blocks):
            inner = {} if keep is not None else None
            x = block(x, y, mask, t0, h, w, inner)
            for name, value in (inner or {}).items():
                keep[f"blocks.{i}.{name}".rstrip(".")] = value
        x = self.final_layer(x, t)
        if keep is not None:
            keep["final_layer"] = x
        x = x.view(-1, h, w, p, p, self.channels).permute(0, 5, 1, 3, 2, 4)
        return x.reshape(-1, self.channels, h * p, w * p)


# ---- the loss --------------------------------------------------------------------------------

class Flow:
    """alpha, sigma and the model's time for each of the training times, in double, then rounded."""

    def __init__(self, config):
        s = config["scheduler"]
        steps, shift = s["train_sampling_steps"], s["flow_shift"]
        plain = 1.0 - np.linspace(1.0, 0.001, steps, dtype=np.float64)
        sigma = shift * plain / (1 + (shift - 1) * plain)
        self.sigma = torch.from_numpy(sigma.astype(np.float32))
        self.alpha = torch.from_numpy((1.0 - sigma).astype(np.float32))
        self.t_model = torch.from_numpy((sigma * steps).astype(np.int64))

    def to(self, device):
        self.sigma, self.alpha = self.sigma.to(device), self.alpha.to(device)
        self.t_model = self.t_model.to(device)
        return self

    def loss(self, model, x0, noise, t_index, y, mask, drop=None, keep=None):
        """Per-sample losses; the loss of a step is their mean."""
        at = (slice(None), None, None, None)
        alpha, sigma = self.alpha[t_index][at].to(x0.dtype), self.sigma[t_index][at].to(x0.dtype)
        x_t = alpha * x0 + sigma * noise
        out = model(x_t, self.t_model[t_index], y, mask, drop)
        if keep is not None:
            keep.update({"x_t": x_t, "output": out})
        return (noise - x0 - out).pow(2).flatten(1).mean(1)


# ---- the optimizers --------------------------------------------------------------------------

class CAME(torch.optim.Optimizer):
    """Confidence-guided, memory-efficient: second moments of matrices as a row and a column."""

    def __init__(self, params, lr, betas, eps, weight_decay=0.0, clip_threshold=1.0):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay,
                                      clip_threshold=clip_threshold))

    @staticmethod
    def matrix(t):
        if t.dim() == 2:
            return t
        return t[:, :, 0, 0] if t.dim() == 4 and tuple(t.shape[2:]) == (1, 1) else None

    @staticmethod
    def scaled(x, row, col):
        return x * torch.rsqrt(row / row.mean())[:, None] * torch.rsqrt(col)[None]

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.step_one(p, group)

    def step_one(self, p, group):
        b1, b2, b3 = group["betas"]
        eps0, eps1 = group["eps"]
        g = self.matrix(p.grad)
        factored = g is not None
        g = g if factored else p.grad
        s = self.state[p]
        if not s:
            s["exp_avg"] = torch.zeros_like(g)
            for part in ("exp_avg_sq_row", "exp_avg_res_row") if factored else ():
                s[part] = g.new_zeros(g.shape[0])
            for part in ("exp_avg_sq_col", "exp_avg_res_col") if factored else ():
                s[part] = g.new_zeros(g.shape[1])
            if not factored:
                s["exp_avg_sq"] = torch.zeros_like(g)
        sq = g * g + eps0
        if factored:
            s["exp_avg_sq_row"].mul_(b2).add_(sq.mean(1), alpha=1 - b2)
            s["exp_avg_sq_col"].mul_(b2).add_(sq.mean(0), alpha=1 - b2)
            u = self.scaled(g, s["exp_avg_sq_row"], s["exp_avg_sq_col"])
        else:
            s["exp_avg_sq"].mul_(b2).add_(sq, alpha=1 - b2)
            u = g * torch.rsqrt(s["exp_avg_sq"])
        u = u / (u.norm() / math.sqrt(u.numel()) / group["clip_threshold"]).clamp(min=1.0)
        m = s["exp_avg"]
        m.mul_(b1).add_(u, alpha=1 - b1)
        if factored:
            res = (u - m) ** 2 + eps1
            s["exp_avg_res_row"].mul_(b3).add_(res.mean(1), alpha=1 - b3)
            s["exp_avg_res_col"].mul_(b3).add_(res.mean(0), alpha=1 - b3)
            m = self.scaled(m, s["exp_avg_res_row"], s["exp_avg_res_col"])
        if group["weight_decay"]:
            p.add_(p, alpha=-group["weight_decay"] * group["lr"])
        p.add_(m.view_as(p), alpha=-group["lr"])


def optimizer_make(config, params, fused=False):
    o = config["train"]["optimizer"]
    if o["type"] == "AdamW":
        how = {"fused": True} if fused else {"foreach": True}
        return torch.optim.AdamW(params, lr=o["lr"], betas=tuple(o.get("betas", (0.9, 0.999))),
                                 eps=o["eps"], weight_decay=o["weight_decay"], **how)
    if o["type"] == "CAMEWrapper":
        return CAME(params, lr=o["lr"], betas=tuple(o["betas"]), eps=tuple(o["eps"]),
                    weight_decay=o["weight_decay"])
    raise ValueError(f"optimizer '{o['type']}' is not known here; AdamW and CAMEWrapper are")


def clip(params, limit):
    return torch.nn.utils.clip_grad_norm_(params, limit)


# ---- verify ----------------------------------------------------------------------------------

class Check:
    """The worst of many comparisons: how much of its tolerance each tensor used."""

    def __init__(self):
        self.count, self.worst = 0, (-1.0, "nothing was compared", 0.0, 0.0)

    def add(self, name, error, tolerance):
        self.count += 1
        used = error / tolerance if error == error else math.inf
        if used > self.worst[0]:
            self.worst = (used, name, error, tolerance)

    def max_abs(self, name, got, want, tolerance):
        if got.shape != want.shape:
            raise ValueError(f"{name}: shape {tuple(got.shape)}, the case has {tuple(want.shape)}")
        self.add(name, (got.detach() - want).abs().max().item(), tolerance)

    def rel_l2(self, name, got, want, tolerance):
        if got.shape != want.shape:
            raise ValueError(f"{name}: shape {tuple(got.shape)}, the case has {tuple(want.shape)}")
        norm = want.double().norm().item()
        self.add(name, (got.detach() - want).double().norm().item() / (norm or 1.0), tolerance)

    def line(self, case):
        used, name, error, tolerance = self.worst
        verdict = "ok    " if used <= 1.0 else "FAILED"
        return f"{verdict} {case}: {self.count} compared, worst {name} {error:.2e} of {tolerance:.0e}"


def model_load(config, tensors):
    torch.manual_seed(config["case"].get("seed", 1))
    model = SanaMS(config)
    names = model.state_dict().keys()
    model.load_state_dict({n: tensors[n] for n in names if n in tensors})  # strict
    return model


def grad_tolerance(name):
    # Tiny gradients by cancellation: fp32 itself is 3e-5 off there.
    delicate = ("cross_attn.q_linear", "cross_attn.q_norm", "cross_attn.k_norm")
    return 1e-4 if any(d in name for d in delicate) else 1e-5


def verify_gradients(config, t, check):
    model, flow = model_load(config, t), Flow(config)
    keep = {}
    with torch.no_grad():
        out = model(t["in.x_t"], t["in.timestep"], t["in.y"], t["in.mask"], keep=keep)
    check.max_abs("out.model", out, t["out.model"], 5e-6)
    for name, value in keep.items():
        if f"act.{name}" in t:
            check.rel_l2(f"act.{name}", value, t[f"act.{name}"], 1e-5)

    index, keep = t["loss.t_index"].long(), {}
    check.max_abs("loss.t_model", flow.t_model[index].float(), t["loss.t_model"], 1e-9)
    check.max_abs("loss.sigma", flow.sigma[index], t["loss.sigma"], 1e-9)
    per_sample = flow.loss(model, t["loss.x0"], t["loss.noise"], index, t["loss.y"],
                           t["loss.mask"], t["loss.drop_ids"], keep)
    per_sample.mean().backward()
    check.max_abs("loss.x_t", keep["x_t"], t["loss.x_t"], 1e-6)
    check.max_abs("loss.output", keep["output"], t["loss.output"], 5e-6)
    check.rel_l2("loss.per_sample", per_sample, t["loss.per_sample"], 1e-6)
    check.rel_l2("loss.mean", per_sample.mean().view(1), t["loss.mean"], 1e-6)
    for name, p in model.named_parameters():
        check.rel_l2(f"grad.{name}", p.grad, t[f"grad.{name}"], grad_tolerance(name))
    norm = clip(list(model.parameters()), config["train"]["gradient_clip"])
    check.rel_l2("loss.grad_norm", norm.view(1), t["loss.grad_norm"], 1e-5)


def verify_steps(config, t, check, state):
    model, flow = model_load(config, t), Flow(config)
    params = list(model.parameters())
    optimizer = optimizer_make(config, params)
    start = {n: p.detach().clone() for n, p in model.named_parameters()}
    base = config["train"]["optimizer"]["lr"]
    warmup = config["train"].get("lr_schedule_args", {}).get("num_warmup_steps", 0)
    for k in range(config["case"]["steps"]):
        lr = base * (k / warmup if k < warmup else 1.0)
        for group in optimizer.param_groups:
            group["lr"] = lr
        s = {n: t[f"step{k}.{n}"] for n in ("x0", "noise", "t_index", "y", "mask", "drop_ids")}
        optimizer.zero_grad(set_to_none=True)
        per_sample = flow.loss(model, s["x0"], s["noise"], s["t_index"].long(), s["y"], s["mask"],
                               s["drop_ids"])
        per_sample.mean().backward()
        norm = clip(params, config["train"]["gradient_clip"])
        optimizer.step()
        check.rel_l2(f"step{k}.per_sample", per_sample, t[f"step{k}.per_sample"], 1e-5)
        check.rel_l2(f"losses[{k}]", per_sample.mean().view(1), t["losses"][k:k + 1], 1e-5)
        check.rel_l2(f"grad_norms[{k}]", norm.view(1), t["grad_norms"][k:k + 1], 1e-4)
        check.rel_l2(f"lrs[{k}]", torch.tensor([lr]), t["lrs"][k:k + 1], 1e-6)

    came = isinstance(optimizer, CAME)
    for name, p in model.named_parameters():
        got, want, old = p.detach(), t[f"final.{name}"], start[name]
        if came and not config["model"]["cross_norm"] and name.endswith("kv_linear.bias"):
            half = got.shape[0] // 2     # the true gradient of the K half is zero: only noise
            got, want, old = got[half:], want[half:], old[half:]
        moved = (want - old).norm().item() or 1.0
        check.add(f"final.{name}", (got - want).norm().item() / moved, 5e-3 if came else 1e-3)
        for part, value in optimizer.state[p].items():
            if f"{part}.{name}" in state and part != "step":
                check.rel_l2(f"{part}.{name}", value.view_as(state[f"{part}.{name}"]),
                             state[f"{part}.{name}"], 5e-3)


def verify(paths):
    failed = 0
    for path in paths:
        stem, check = path[:-len(".json")] if path.endswith(".json") else path, Check()
        with open(path) as f:
            config = json.load(f)
        name = config["case"].get("name", os.path.basename(stem))
        tensors = safetensors_read(stem + ".safetensors")
        if "steps" in config["case"]:
            side = stem + ".optstate.safetensors"
            state = safetensors_read(side) if os.path.exists(side) else {}
            verify_steps(config, tensors, check, state)
        else:
            verify_gradients(config, tensors, check)
        print(check.line(name), flush=True)
        failed += check.worst[0] > 1.0 or check.count == 0
    print(f"verify: {len(paths) - failed} passed, {failed} failed")
    return 1 if failed else 0


# ---- bench -----------------------------------------------------------------------------------

def complete(config):
    """What a configuration may leave out."""
    config["model"].setdefault("qk_norm", False)
    config["model"].setdefault("cross_norm", False)
    config["text_encoder"].setdefault("norm_eps", 1e-5)
    config["scheduler"].setdefault("train_sampling_steps", 1000)
    config["case"].setdefault("text_len", config["text_encoder"]["model_max_length"])
    return config


def forward_flops(config):
    """Useful work of a sample's forward pass: matrix products and convolutions, 1 MAC = 2."""
    m, case, text = config["model"], config["case"], config["text_encoder"]
    c, hid, length = m["hidden_size"], int(m["hidden_size"] * m["mlp_ratio"]), case["text_len"]
    n = (case["latent_hw"][0] // m["patch_size"]) * (case["latent_hw"][1] // m["patch_size"])
    patch = config["vae"]["vae_latent_dim"] * m["patch_size"] ** 2
    block = (2 * n * c * 4 * c + 4 * n * c * (m["linear_head_dim"] + 1) + 4 * n * c * c
             + 4 * length * c * c + 4 * n * length * c + 4 * n * c * hid + 36 * n * hid
             + 2 * n * hid * c)
    rest = (4 * n * patch * c + 2 * T_WIDTH * c + 14 * c * c
            + 2 * length * text["caption_channels"] * c + 2 * length * c * c)
    return m["depth"] * block + rest


class Bench:
    """One training step over and over on random numbers."""

    def __init__(self, config, args):
        case, width = config["case"], config["text_encoder"]["caption_channels"]
        b, (h, w), length = args.batch or case["batch"], case["latent_hw"], case["text_len"]
        self.args, self.config, self.batch, self.device = args, config, b, torch.device(args.device)
        torch.manual_seed(case.get("seed", 1))
        self.model = SanaMS(config).train().to(self.device)
        self.params = list(self.model.parameters())
        self.flow = Flow(config).to(self.device)
        self.optimizer = optimizer_make(config, self.params, fused=self.device.type == "cuda")
        self.x0 = torch.randn(b, self.model.channels, h, w, device=self.device)
        self.noise = torch.randn_like(self.x0)
        self.y = torch.randn(b, 1, length, width, device=self.device)
        self.mask = torch.ones(b, 1, 1, length, device=self.device)
        self.index = torch.randint(0, len(self.flow.sigma), (b,), device=self.device)
        self.run = torch.compile(self.model) if args.compile else self.model

    def wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def step(self):
        """Milliseconds and the loss."""
        self.wait()
        begin = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.args.bf16):
            loss = self.flow.loss(self.run, self.x0, self.noise, self.index, self.y,
                                  self.mask).mean()
        loss.backward()
        clip(self.params, self.config["train"]["gradient_clip"])
        self.optimizer.step()
        self.wait()
        return (time.perf_counter() - begin) * 1e3, loss

    def choose_format(self):
        """The faster one of two, each tried for some steps."""
        took = {}
        for MixFFN.channels_first in (False, True):
            took[MixFFN.channels_first] = min(self.step()[0] for _ in range(4))
        MixFFN.channels_first = took[True] < took[False]


def bench(args):
    with open(args.config) as f:
        configs = json.load(f)
    if args.case not in configs:
        sys.exit(f"sana_torch.py: no case '{args.case}' in {args.config}; it has: "
                 + ", ".join(configs))
    if args.compile and not hasattr(torch, "compile"):
        sys.exit(f"sana_torch.py: torch {torch.__version__} has no torch.compile; 2.0 has")
    config = complete(configs[args.case])
    CrossAttention.fused = args.device == "cuda" and hasattr(F, "scaled_dot_product_attention")
    if args.device == "cuda":
        torch.backends.cudnn.benchmark = True
    b = Bench(config, args)
    if args.device == "cuda" and not args.compile:
        b.choose_format()
    for _ in range(args.warmup):
        b.step()
    times, losses = zip(*(b.step() for _ in range(args.steps)))
    ms = statistics.median(times)
    tflops = 3 * b.batch * forward_flops(config) / ms * 1e-9
    what = "pytorch" + (" compiled" if args.compile else " eager" if args.device == "cuda" else "")
    out = {"case": args.case, "what": what, "version": torch.__version__,
           "threads": torch.get_num_threads(), "steps": args.steps, "batch": b.batch,
           "bf16": args.bf16, "ms_median": round(ms, 4), "ms_min": round(min(times), 4),
           "samples_per_s": round(b.batch * 1e3 / ms, 3), "tflops": float(f"{tflops:.6g}"),
           "params": sum(p.numel() for p in b.params), "loss": losses[-1].item()}
    if args.peak:
        out["mfu"] = float(f"{tflops / args.peak:.4g}")
    if args.device == "cuda":
        out["device"] = torch.cuda.get_device_name()
        out["memory_bytes"] = torch.cuda.max_memory_allocated()
    if args.json:
        print(json.dumps(out))
    else:
        print(f"{out['case']}: {what}, {ms:.2f} ms/step (median of {args.steps}; fastest "
              f"{out['ms_min']:.2f}), {out['samples_per_s']:.1f} samples/s, {tflops:.3g} TFLOP/s"
              + (f", MFU {100 * out['mfu']:.1f} %" if args.peak else "")
              + f", torch {out['version']}, {out['threads']} threads")
    return 0 if math.isfinite(out["loss"]) else 1


def main():
    parser = argparse.ArgumentParser(prog="sana_torch.py", description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    v = verbs.add_parser("verify", help="run golden cases")
    v.add_argument("cases", nargs="+", metavar="CASE.json")
    v.add_argument("--threads", type=int, default=2)
    r = verbs.add_parser("bench", help="time forward, loss, backward, clip and optimizer")
    r.add_argument("--case", required=True)
    r.add_argument("--config", default=CONFIGS)
    r.add_argument("--steps", type=int, default=20)
    r.add_argument("--warmup", type=int, default=3)
    r.add_argument("--threads", type=int, default=2)
    r.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    r.add_argument("--bf16", action="store_true", help="autocast around the forward pass")
    r.add_argument("--compile", action="store_true", help="torch.compile the model")
    r.add_argument("--batch", type=int, help="instead of the case's")
    r.add_argument("--peak", type=float, help="the device's TFLOP/s, to print the share used (MFU)")
    r.add_argument("--json", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    return verify(args.cases) if args.verb == "verify" else bench(args)


if __name__ == "__main__":
    sys.exit(main())
