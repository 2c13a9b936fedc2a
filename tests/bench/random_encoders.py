#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""random_encoders.py - golden cases of autoencoders and text encoders that nobody chose

Draws sizes of DC-AE (widths, depths, kinds of blocks, pictures), of SDXL's AutoencoderKL (stages, layers, groups) and of
Gemma 1 and 2 (heads, grouped keys, windows, caps, lengths), computes them in plain PyTorch, and writes them in the format
of tests/golden/vae and of the cases of kind gemma1 and gemma2, for `jobctl-verify`.

  random_encoders.py DIR [--count N] [--seed N]      N of each kind
"""
import argparse
import json
import os

import numpy as np
import torch
import torch.nn.functional as F

import vae_torch
from random_cases import safetensors_write


def write(where, name, case, tensors):
    os.makedirs(where, exist_ok=True)
    with open(os.path.join(where, name + ".json"), "w") as f:
        json.dump(dict(case, name=name), f, indent=1)
    safetensors_write(os.path.join(where, name + ".safetensors"), tensors)


# --- DC-AE ------------------------------------------------------------------------------------

def draw_dcae(rng):
    stages = int(rng.integers(2, 5))
    vits = int(rng.integers(1, stages))
    latent = int(rng.choice([2, 4, 8]))
    widths = [8 * int(rng.integers(1, 4))]
    for i in range(1, stages):  # the shortcuts take averages of whole groups of channels
        step = [w for w in (32, 64, 96, 16, 48) if (4 * widths[-1]) % w == 0 and (i < stages - vits or w % 32 == 0)]
        widths.append(int(rng.choice(step)) if step else 4 * widths[-1])
    return {"latent_channels": latent, "width_list": widths,
            "block_type": ["ResBlock"] * (stages - vits) + ["EViTS5_GLU"] * vits,
            "encoder_depth_list": [int(rng.integers(1, 3)) for _ in widths],
            "decoder_depth_list": [int(rng.integers(1, 3)) for _ in widths]}


def fits(c):
    w = c["width_list"]
    return all(a * 4 % b == 0 and b * 4 % a == 0 for a, b in zip(w, w[1:])) and w[-1] % c["latent_channels"] == 0 and \
        all(v % 32 == 0 for v, k in zip(w, c["block_type"]) if k != "ResBlock")


def dcae(rng, where, name, seed):
    config = draw_dcae(rng)
    while not fits(config):
        config = draw_dcae(rng)
    torch.manual_seed(seed)
    shrink, tensors, cases = 2 ** (len(config["width_list"]) - 1), {}, {}
    halves = {"encode": vae_torch.model(config, "encode"), "decode": vae_torch.model(config, "decode")}
    for half, m in halves.items():
        for key, p in m.named_parameters():
            p.data += 0.1 * torch.randn_like(p)
            tensors[half + "r." + key] = p
    for tag in ("a", "b"):
        h, w = int(rng.integers(1, 9)), int(rng.integers(1, 9))
        x, z = torch.rand(1, 3, h * shrink, w * shrink) * 2 - 1, torch.randn(1, config["latent_channels"], h, w)
        tensors.update({f"in.{tag}.x": x, f"in.{tag}.z": z, f"out.{tag}.z": halves["encode"](x),
                        f"out.{tag}.x": halves["decode"](z)})
        cases[tag] = {"batch": 1, "image_hw": [h * shrink, w * shrink], "latent_hw": [h, w]}
    write(where, name, {"kind": "dcae", "config": config, "scaling_factor": 0.41407, "cases": cases}, tensors)


# --- AutoencoderKL ----------------------------------------------------------------------------

class Drawn(dict):
    """Tensors that are drawn when they are first used."""

    def conv(self, name, x, out, k=3, **how):
        w = self.draw(name + ".weight", (out, x.shape[1], k, k), (x.shape[1] * k * k) ** -0.5)
        return F.conv2d(x, w, self.draw(name + ".bias", (out,), 0.1), **how)

    def linear(self, name, x):
        n = x.shape[-1]
        return F.linear(x, self.draw(name + ".weight", (n, n), n ** -0.5), self.draw(name + ".bias", (n,), 0.1))

    def norm(self, name, x, groups):
        c = (x.shape[1],)
        return F.group_norm(x, groups, 1 + self.draw(name + ".weight", c, 0.1, 1), self.draw(name + ".bias", c, 0.1), 1e-6)

    def draw(self, name, shape, scale, mean=0):
        if name not in self:
            self[name] = mean + scale * torch.randn(shape)
        return self[name] - mean

    def resnet(self, name, x, out, groups):
        h = self.conv(name + ".conv1", F.silu(self.norm(name + ".norm1", x, groups)), out, padding=1)
        h = self.conv(name + ".conv2", F.silu(self.norm(name + ".norm2", h, groups)), out, padding=1)
        return h + (x if x.shape[1] == out else self.conv(name + ".conv_shortcut", x, out, 1))

    def middle(self, name, x, groups):
        b, c, h, w = x.shape
        x = self.resnet(name + ".resnets.0", x, c, groups)
        t = self.norm(name + ".attentions.0.group_norm", x, groups).reshape(b, c, h * w).transpose(1, 2)
        q, k, v = (self.linear(f"{name}.attentions.0.to_{part}", t) for part in "qkv")
        o = self.linear(name + ".attentions.0.to_out.0", (q @ k.transpose(1, 2) * c ** -0.5).softmax(-1) @ v)
        return self.resnet(name + ".resnets.1", x + o.transpose(1, 2).reshape(b, c, h, w), c, groups)


def kl_encode(d, c, x):
    widths, groups = c["block_out_channels"], c["norm_num_groups"]
    x = d.conv("encoder.conv_in", x, widths[0], padding=1)
    for i, width in enumerate(widths):
        for k in range(c["layers_per_block"]):
            x = d.resnet(f"encoder.down_blocks.{i}.resnets.{k}", x, width, groups)
        if i + 1 < len(widths):
            x = d.conv(f"encoder.down_blocks.{i}.downsamplers.0.conv", F.pad(x, (0, 1, 0, 1)), width, stride=2)
    x = F.silu(d.norm("encoder.conv_norm_out", d.middle("encoder.mid_block", x, groups), groups))
    both = d.conv("quant_conv", d.conv("encoder.conv_out", x, 2 * c["latent_channels"], padding=1), 2 * c["latent_channels"], 1)
    return both.chunk(2, 1)


def kl_decode(d, c, z):
    widths, groups = c["block_out_channels"], c["norm_num_groups"]
    x = d.conv("decoder.conv_in", d.conv("post_quant_conv", z, c["latent_channels"], 1), widths[-1], padding=1)
    x = d.middle("decoder.mid_block", x, groups)
    for i, width in enumerate(reversed(widths)):
        for k in range(c["layers_per_block"] + 1):
            x = d.resnet(f"decoder.up_blocks.{i}.resnets.{k}", x, width, groups)
        if i + 1 < len(widths):
            x = d.conv(f"decoder.up_blocks.{i}.upsamplers.0.conv", F.interpolate(x, scale_factor=2, mode="nearest"), width,
                       padding=1)
    return d.conv("decoder.conv_out", F.silu(d.norm("decoder.conv_norm_out", x, groups)), 3, padding=1)


def kl(rng, where, name, seed):
    torch.manual_seed(seed)
    stages, groups = int(rng.integers(2, 5)), int(rng.choice([2, 4]))
    c = {"in_channels": 3, "out_channels": 3, "down_block_types": ["DownEncoderBlock2D"] * stages,
         "up_block_types": ["UpDecoderBlock2D"] * stages, "act_fn": "silu", "scaling_factor": 0.13025,
         "block_out_channels": [groups * int(rng.integers(1, 9)) for _ in range(stages)],
         "layers_per_block": int(rng.integers(1, 3)), "latent_channels": int(rng.choice([2, 4])), "norm_num_groups": groups}
    tensors, cases, shrink = Drawn(), {}, 2 ** (stages - 1)
    for tag in ("a", "b"):
        h, w = int(rng.integers(1, 7)), int(rng.integers(1, 7))
        x, z = torch.rand(1, 3, h * shrink, w * shrink) * 2 - 1, torch.randn(1, c["latent_channels"], h, w)
        mean, logvar = kl_encode(tensors, c, x)
        logvar = logvar.clamp(-30, 20)
        out = {f"in.{tag}.x": x, f"in.{tag}.z": z, f"out.{tag}.mean": mean, f"out.{tag}.logvar": logvar,
               f"out.{tag}.std": (logvar / 2).exp(), f"out.{tag}.x": kl_decode(tensors, c, z)}
        tensors.update(out)
        cases[tag] = {"batch": 1, "image_hw": [h * shrink, w * shrink], "latent_hw": [h, w]}
    write(where, name, {"kind": "sdxl-vae", "config": c, "scaling_factor": 0.13025, "cases": cases}, tensors)


# --- Gemma ------------------------------------------------------------------------------------

def draw_gemma(rng, version):
    heads = int(rng.choice([2, 4, 6]))
    return {"vocab_size": int(rng.integers(20, 90)), "hidden_size": 8 * int(rng.integers(2, 9)),
            "intermediate_size": 4 * int(rng.integers(5, 40)), "num_hidden_layers": int(rng.integers(2, 5)),
            "num_attention_heads": heads, "num_key_value_heads": int(rng.choice([k for k in (1, 2, heads) if heads % k == 0])),
            "head_dim": int(rng.choice([4, 8, 16])), "rms_norm_eps": 1e-6, "rope_theta": float(rng.choice([1e3, 1e4])),
            "hidden_activation": "gelu_pytorch_tanh", "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 1,
            **({"query_pre_attn_scalar": int(rng.integers(3, 40)), "sliding_window": int(rng.integers(2, 12)),
                "attn_logit_softcapping": float(rng.choice([5.0, 50.0]))} if version == 2 else {})}


def norm(x, w, eps):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * (1 + w)


def rotate(x, theta):
    d, angle = x.shape[-1], torch.arange(x.shape[-2], dtype=torch.float32)[:, None]
    angle = angle * theta ** (-torch.arange(0, d, 2, dtype=torch.float32) / d)
    a, b, c, s = x[..., :d // 2], x[..., d // 2:], angle.cos(), angle.sin()
    return torch.cat([a * c - b * s, b * c + a * s], -1)


def attend(c, w, prefix, x, mask, layer):
    h, k, d, n = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"], x.shape[1]
    q, key, v = ((x @ w[f"{prefix}self_attn.{name}_proj.weight"].T).reshape(len(x), n, -1, d).transpose(1, 2) for name in "qkv")
    q, key = rotate(q, c["rope_theta"]), rotate(key, c["rope_theta"])
    s = q @ key.repeat_interleave(h // k, 1).transpose(-1, -2) * c.get("query_pre_attn_scalar", d) ** -0.5
    if "attn_logit_softcapping" in c:
        s = c["attn_logit_softcapping"] * torch.tanh(s / c["attn_logit_softcapping"])
    i = torch.arange(n)
    seen = (i[None, :] <= i[:, None])[None] & (mask[:, None, :] > 0)
    if "sliding_window" in c and layer % 2 == 0:
        seen = seen & (i[:, None] - i[None, :] < c["sliding_window"])[None]
    s = s.masked_fill(~seen[:, None], torch.finfo(s.dtype).min)
    o = s.softmax(-1) @ v.repeat_interleave(h // k, 1)
    return o.transpose(1, 2).reshape(len(x), n, h * d) @ w[f"{prefix}self_attn.o_proj.weight"].T


def gemma_weights(c, version):
    d, i, wide = c["hidden_size"], c["intermediate_size"], c["num_attention_heads"] * c["head_dim"]
    narrow = c["num_key_value_heads"] * c["head_dim"]
    shapes = {"embed_tokens": (c["vocab_size"], d), "norm": (d,)}
    for n in range(c["num_hidden_layers"]):
        p = f"layers.{n}."
        for name, rows, columns in (("self_attn.q_proj", wide, d), ("self_attn.k_proj", narrow, d), ("self_attn.v_proj", narrow, d),
                                    ("self_attn.o_proj", d, wide), ("mlp.gate_proj", i, d), ("mlp.up_proj", i, d),
                                    ("mlp.down_proj", d, i)):
            shapes[p + name] = (rows, columns)
        for name in ["input", "post_attention"] + (["pre_feedforward", "post_feedforward"] if version == 2 else []):
            shapes[p + name + "_layernorm"] = (d,)
    return {name + ".weight": torch.randn(s) * (0.2 if len(s) == 1 else s[-1] ** -0.5) for name, s in shapes.items()}


def gemma(rng, where, name, seed, version):
    c = draw_gemma(rng, version)
    torch.manual_seed(seed)
    w, eps, n = gemma_weights(c, version), c["rms_norm_eps"], int(rng.integers(3, 30))
    lens = [n, int(rng.integers(1, n + 1))]
    mask = torch.stack([(torch.arange(n) < k).float() for k in lens])
    ids = torch.randint(3, c["vocab_size"], (2, n)) * mask.long()
    h = w["embed_tokens.weight"][ids] * c["hidden_size"] ** 0.5
    hidden = []
    for layer in range(c["num_hidden_layers"]):
        hidden.append(h)
        p = f"layers.{layer}."
        after = lambda part, x: norm(x, w[p + part], eps) if version == 2 else x
        h = h + after("post_attention_layernorm.weight", attend(c, w, p, norm(h, w[p + "input_layernorm.weight"], eps), mask, layer))
        x = norm(h, w[p + ("pre_feedforward" if version == 2 else "post_attention") + "_layernorm.weight"], eps)
        x = F.gelu(x @ w[p + "mlp.gate_proj.weight"].T, approximate="tanh") * (x @ w[p + "mlp.up_proj.weight"].T)
        h = h + after("post_feedforward_layernorm.weight", x @ w[p + "mlp.down_proj.weight"].T)
    tensors = dict(w, **{"in.input_ids": ids.float(), "in.attention_mask": mask, "in.row_defined": row_defined(c, mask),
                         "out.last_hidden_state": norm(h, w["norm.weight"], eps)})
    if version == 1:
        tensors["out.hidden_minus2"] = hidden[-1]
    for i, x in enumerate(hidden):
        tensors[f"act.hidden.{i}"] = x
    write(where, name, {"kind": f"gemma{version}", "config": c, "padding_side": "right", "lens": lens, "L": n}, tensors)


def row_defined(c, mask):
    """0 where a window reaches no token: such a row averages everything, and nobody uses it."""
    n = mask.shape[1]
    last = (mask * torch.arange(n)).max(1).values[:, None]
    return ((torch.arange(n)[None] - last) < c.get("sliding_window", n)).float()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("dir")
    p.add_argument("--count", type=int, default=4)
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()
    rng = np.random.default_rng(args.seed)
    with torch.no_grad():
        for i in range(args.count):
            seed = args.seed * 1000 + i
            dcae(rng, args.dir, f"dcae-{i}", seed)
            kl(rng, args.dir, f"kl-{i}", seed)
            gemma(rng, args.dir, f"gemma2-{i}", seed, 2)
            gemma(rng, args.dir, f"gemma1-{i}", seed, 1)


main()
