#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""DC-AE (f32c32) in plain PyTorch with random weights: the peer of `jobctl-train vae bench`.

vae_torch.py [--half encode|decode] [--size N] [--runs N] [--threads N] [--json]
vae_torch.py verify CASE.json       the same modules with a golden case's weights
"""
import argparse
import json
import math
import resource
import struct
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Norm(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(c)), nn.Parameter(torch.zeros(c))

    def forward(self, x):
        y = x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-5)
        return y * self.weight[:, None, None] + self.bias[:, None, None]


class Conv(nn.Module):  # names of the authors' ConvLayer
    def __init__(self, i, o, k=3, stride=1, groups=1, bias=True, norm=False, act=False, up=False):
        super().__init__()
        self.conv = nn.Conv2d(i, o, k, stride, k // 2, groups=groups, bias=bias)
        self.norm = Norm(o) if norm else None
        self.act, self.up = act, up

    def forward(self, x):
        y = self.conv(F.interpolate(x, scale_factor=2, mode="nearest") if self.up else x)
        y = self.norm(y) if self.norm else y
        return F.silu(y) if self.act else y


class Main(nn.Module):
    def __init__(self, main):
        super().__init__()
        self.main = main


class Res(Main):
    def __init__(self, c):
        super().__init__(nn.ModuleDict({"conv1": Conv(c, c, act=True), "conv2": Conv(c, c, bias=False, norm=True)}))

    def forward(self, x):
        return x + self.main["conv2"](self.main["conv1"](x))


class Attention(Main):
    def __init__(self, c):
        heads = c // 32
        super().__init__(nn.ModuleDict({
            "qkv": Conv(c, 3 * c, 1, bias=False),
            "aggreg": nn.ModuleList([nn.Sequential(nn.Conv2d(3 * c, 3 * c, 5, 1, 2, groups=3 * c, bias=False),
                                                   nn.Conv2d(3 * c, 3 * c, 1, groups=3 * heads, bias=False))]),
            "proj": Conv(2 * c, c, 1, bias=False, norm=True)}))

    def forward(self, x):
        m, (b, _, h, w) = self.main, x.shape
        qkv = m["qkv"](x)
        qkv = torch.cat([qkv, m["aggreg"][0](qkv)], 1).reshape(b, -1, 96, h * w)
        q, k, v = F.relu(qkv[:, :, :32]), F.relu(qkv[:, :, 32:64]), qkv[:, :, 64:]
        v = F.pad(v, (0, 0, 0, 1), value=1.0)
        if h * w > 32:
            out = (v @ k.transpose(-1, -2)) @ q
            out = out[:, :, :-1] / (out[:, :, -1:] + 1e-15)
        else:
            a = k.transpose(-1, -2) @ q
            out = v[:, :, :-1] @ (a / (a.sum(2, keepdim=True) + 1e-15))
        return x + m["proj"](out.reshape(b, -1, h, w))


class Glu(Main):
    def __init__(self, c):
        super().__init__(nn.Module())
        self.main.inverted_conv = Conv(c, 8 * c, 1, act=True)
        self.main.depth_conv = Conv(8 * c, 8 * c, groups=8 * c)
        self.main.point_conv = Conv(4 * c, c, 1, bias=False, norm=True)

    def forward(self, x):
        a, g = self.main.depth_conv(self.main.inverted_conv(x)).chunk(2, 1)
        return x + self.main.point_conv(a * F.silu(g))


class Vit(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.context_module, self.local_module = Attention(c), Glu(c)

    def forward(self, x):
        return self.local_module(self.context_module(x))


class Down(Main):
    def __init__(self, i, o):
        super().__init__(Conv(i, o, stride=2))
        self.o = o

    def forward(self, x):
        s = F.pixel_unshuffle(x, 2)
        b, c, h, w = s.shape
        return self.main(x) + s.reshape(b, self.o, c // self.o, h, w).mean(2)


class Up(Main):
    def __init__(self, i, o):
        super().__init__(nn.Module())
        self.main.conv = Conv(i, o, up=True)
        self.main.forward = self.main.conv.forward
        self.repeat = 4 * o // i

    def forward(self, x):
        return self.main.conv(x) + F.pixel_shuffle(x.repeat_interleave(self.repeat, 1), 2)


class Ends(Main):
    def __init__(self, main, shortcut):
        super().__init__(main)
        self.shortcut = shortcut

    def forward(self, x):
        y = x
        for layer in (self.main.op_list if hasattr(self.main, "op_list") else [self.main]):
            y = layer(y)
        return y + self.shortcut(x)


def op_list(*layers):
    m = nn.Module()
    m.op_list = nn.ModuleList(layers)
    return m


def run_stages(stages, x, order):
    for i in order:
        for op in stages[i].op_list:
            x = op(x)
    return x


class Encoder(nn.Module):
    def __init__(self, widths, depths, kinds, latent):
        super().__init__()
        self.project_in = Conv(3, widths[0])
        last = len(widths) - 1
        self.stages = nn.ModuleList(
            op_list(*[Vit(w) if kinds[i] else Res(w) for _ in range(depths[i])],
                    *([Down(w, widths[i + 1])] if i < last else [])) for i, w in enumerate(widths))
        self.project_out = Ends(op_list(Conv(widths[-1], latent)),
                                lambda x: x.reshape(x.shape[0], latent, -1, *x.shape[2:]).mean(2))

    def forward(self, x):
        return self.project_out(run_stages(self.stages, self.project_in(x), range(len(self.stages))))


class Decoder(nn.Module):
    def __init__(self, widths, depths, kinds, latent):
        super().__init__()
        last = len(widths) - 1
        self.project_in = Ends(Conv(latent, widths[-1]), lambda x: x.repeat_interleave(widths[-1] // latent, 1))
        self.stages = nn.ModuleList(
            op_list(*([Up(widths[i + 1], w)] if i < last else []),
                    *[Vit(w) if kinds[i] else Res(w) for _ in range(depths[i])]) for i, w in enumerate(widths))
        self.project_out = op_list(Norm(widths[0]), nn.ReLU(), Conv(widths[0], 3))

    def forward(self, x):
        x = run_stages(self.stages, self.project_in(x), reversed(range(len(self.stages))))
        for layer in self.project_out.op_list:
            x = layer(x)
        return x


def model(config, half):
    kinds = [k != "ResBlock" for k in config["block_type"]]
    cls = Encoder if half == "encode" else Decoder
    m = cls(config["width_list"], config[half + "r_depth_list"], kinds, config["latent_channels"]).eval()
    return m


def tensors(path):
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        head, data = json.loads(f.read(n)), f.read()
    for name, t in head.items():
        if name != "__metadata__":
            a, b = t["data_offsets"]
            kind = {"F32": torch.float32, "F64": torch.float64}[t["dtype"]]
            yield name, torch.frombuffer(bytearray(data[a:b]), dtype=kind).reshape(t["shape"])


def verify(path):
    case = json.load(open(path))
    all_of = dict(tensors(path[:-5] + ".safetensors"))
    for half, name, a, b in (("encode", "encoder.", "x", "z"), ("decode", "decoder.", "z", "x")):
        m = model(case["config"], half)
        m.load_state_dict({k[len(name):]: v for k, v in all_of.items() if k.startswith(name)})
        for tag in case["cases"]:
            ours, want = m(all_of["in.%s.%s" % (tag, a)]), all_of["out.%s.%s" % (tag, b)]
            print("%s %s: relative L2 %.1e" % (tag, half, float((ours - want).norm() / want.norm())))


REAL = {"latent_channels": 32, "width_list": [128, 256, 512, 512, 1024, 1024],
        "block_type": ["ResBlock"] * 3 + ["EViTS5_GLU"] * 3,
        "encoder_depth_list": [2, 2, 2, 3, 3, 3], "decoder_depth_list": [3] * 6}


def bench(args):
    torch.manual_seed(1)
    m = model(REAL, args.half)
    for p in m.parameters():
        if p.dim() > 1:
            nn.init.uniform_(p, -math.sqrt(3 / p[0].numel()), math.sqrt(3 / p[0].numel()))
    edge = args.size // 32
    x = torch.rand(1, 3, edge * 32, edge * 32) * 2 - 1 if args.half == "encode" else torch.randn(1, 32, edge, edge)
    if args.channels_last:
        m, x = m.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    times, used = [], 0.0
    for i in range(args.runs + 1):
        u = resource.getrusage(resource.RUSAGE_SELF)
        start = time.monotonic()
        m(x)
        v = resource.getrusage(resource.RUSAGE_SELF)
        if i:  # the first one is to warm up
            times.append(time.monotonic() - start)
            used += v.ru_utime + v.ru_stime - u.ru_utime - u.ru_stime
    times.sort()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000
    print(json.dumps({"torch": torch.__version__, "size": args.size, "s_median": times[len(times) // 2],
                      "s_min": times[0], "cpu_s": used / args.runs, "peak_mb": peak}))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("case", nargs="*", help="verify CASE.json")
    p.add_argument("--half", choices=["encode", "decode"], default="encode")
    p.add_argument("--size", type=int, default=512)
    p.add_argument("--runs", type=int, default=3)
    p.add_argument("--threads", type=int, default=torch.get_num_threads())
    p.add_argument("--channels-last", action="store_true")
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    with torch.no_grad():
        if args.case[:1] == ["verify"]:
            for path in args.case[1:]:
                verify(path)
        else:
            bench(args)


if __name__ == "__main__":
    main()
