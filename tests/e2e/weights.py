# SPDX-License-Identifier: Apache-2.0
"""weights.py NATIVE.safetensors OUT NAMING FORM DTYPE: a checkpoint's weights as others publish them

NAMING  authors | diffusers: the second splits joint matrices and has no null caption
FORM    safetensors | shards (OUT is a directory with an index) | folder (a diffusers pipeline) | pth | legacy
DTYPE   F32 | F16 | BF16, or F32<BF16: numbers of the second type, written as the first
More arguments change it: drop=NAME leaves a tensor out, add=NAME adds one, zero=NAME one of zeros, cut=NAME halves the first dimension.
"""
import sys
sys.path.pop(0)  # the json.py beside this file is another

import json  # noqa: E402
import os  # noqa: E402
import pickle  # noqa: E402
import re  # noqa: E402
import struct  # noqa: E402
import types  # noqa: E402
import zipfile  # noqa: E402

RULES = [  # from the authors' names to diffusers'
    (r'x_embedder\.proj', 'patch_embed.proj'), (r'y_embedder\.y_proj\.fc', 'caption_projection.linear_'),
    (r't_embedder\.mlp\.0', 'time_embed.emb.timestep_embedder.linear_1'),
    (r't_embedder\.mlp\.2', 'time_embed.emb.timestep_embedder.linear_2'), (r't_block\.1', 'time_embed.linear'),
    (r'attention_y_norm', 'caption_norm'), (r'final_layer\.linear', 'proj_out'),
    (r'final_layer\.scale_shift_table', 'scale_shift_table'), (r'^blocks', 'transformer_blocks'),
    (r'\.attn\.proj', '.attn1.to_out.0'), (r'\.attn\.([qk])_norm', r'.attn1.norm_\1'),
    (r'cross_attn\.q_linear', 'attn2.to_q'), (r'cross_attn\.proj', 'attn2.to_out.0'),
    (r'cross_attn\.([qk])_norm', r'attn2.norm_\1'), (r'mlp\.inverted_conv\.conv', 'ff.conv_inverted'),
    (r'mlp\.depth_conv\.conv', 'ff.conv_depth'), (r'mlp\.point_conv\.conv', 'ff.conv_point'),
]
SPLIT = {'attn.qkv': ('attn1.', 'qkv'), 'cross_attn.kv_linear': ('attn2.', 'kv')}


def read(path):
    data = open(path, 'rb').read()
    n = struct.unpack('<Q', data[:8])[0]
    head = json.loads(data[8:8 + n])
    out = {}
    for name, t in head.items():
        if name != '__metadata__':
            a, b = t['data_offsets']
            out[name] = (t['shape'], struct.unpack('<%df' % ((b - a) // 4), data[8 + n + a:8 + n + b]))
    return out


def diffusers_names(tensors):
    out = {}
    for name, (shape, x) in tensors.items():
        if name == 'y_embedder.y_embedding':
            continue
        for joint, (where, parts) in SPLIT.items():
            if '.' + joint + '.' in name:
                for i, p in enumerate(parts):
                    n = len(x) // len(parts)
                    part = name.replace(joint, where + 'to_' + p).replace('blocks', 'transformer_blocks')
                    out[part] = ([shape[0] // len(parts)] + shape[1:], x[i * n:(i + 1) * n])
                break
        else:
            for a, b in RULES:
                name = re.sub(a, b, name)
            out[name] = (shape, x)
    return out


def numbers(x, dtype):
    if dtype == 'F16':
        return struct.pack('<%de' % len(x), *x)
    raw = struct.pack('<%df' % len(x), *x)
    return raw if dtype == 'F32' else b''.join(raw[i + 2:i + 4] for i in range(0, len(raw), 4))


def rounded(x, dtype):
    if dtype == 'F16':
        return struct.unpack('<%de' % len(x), numbers(x, 'F16'))
    return struct.unpack('<%df' % len(x), b''.join(b'\0\0' + struct.pack('<f', v)[2:] for v in x))


def write_safetensors(path, tensors, dtype):
    head, at, body = {'__metadata__': {'format': 'pt'}}, 0, []
    for name, (shape, x) in tensors.items():
        body.append(numbers(x, dtype))
        head[name] = {'dtype': dtype, 'shape': shape, 'data_offsets': [at, at + len(body[-1])]}
        at += len(body[-1])
    text = json.dumps(head).encode()
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text + b''.join(body))


def write_shards(folder, tensors, dtype, stem):
    os.makedirs(folder)
    names = sorted(tensors)
    index = {}
    for i in range(2):
        file = '%s-%05d-of-00002.safetensors' % (stem, i + 1)
        part = {n: tensors[n] for n in names[i::2]}
        write_safetensors(os.path.join(folder, file), part, dtype)
        index.update({n: file for n in part})
    with open(os.path.join(folder, stem + '.safetensors.index.json'), 'w') as f:
        json.dump({'metadata': {'total_size': 1}, 'weight_map': index}, f)


# --- as torch.save() writes it ---
def torch_like():
    torch, utils = types.ModuleType('torch'), types.ModuleType('torch._utils')
    sys.modules.update({'torch': torch, 'torch._utils': utils})
    for name in ('FloatStorage', 'HalfStorage', 'BFloat16Storage'):
        setattr(torch, name, type(name, (), {'__module__': 'torch'}))

    def rebuild(*args):
        raise NotImplementedError
    rebuild.__module__, rebuild.__name__, rebuild.__qualname__ = 'torch._utils', '_rebuild_tensor_v2', '_rebuild_tensor_v2'
    utils._rebuild_tensor_v2 = rebuild
    return torch, rebuild


class Storage:
    def __init__(self, key, kind, data, count):
        self.key, self.kind, self.data, self.count = key, kind, data, count


class Tensor:
    rebuild = None

    def __init__(self, storage, shape):
        self.storage, self.shape = storage, shape

    def __reduce__(self):
        steps = [1]
        for n in self.shape[:0:-1]:
            steps.insert(0, steps[0] * n)
        return Tensor.rebuild, (self.storage, 0, tuple(self.shape), tuple(steps[:len(self.shape)]), False, None)


class Pickler(pickle.Pickler):
    legacy = False

    def persistent_id(self, x):
        if isinstance(x, Storage):
            return ('storage', x.kind, x.key, 'cpu', x.count) + ((None,) if self.legacy else ())
        return None


def write_pth(path, tensors, dtype, legacy):
    torch, Tensor.rebuild = torch_like()
    kind = {'F32': torch.FloatStorage, 'F16': torch.HalfStorage, 'BF16': torch.BFloat16Storage}[dtype]
    stores = [Storage(str(i), kind, numbers(x, dtype), len(x)) for i, (_, x) in enumerate(tensors.values())]
    state = {n: Tensor(s, shape) for s, (n, (shape, _)) in zip(stores, tensors.items())}
    Pickler.legacy = legacy
    if legacy:
        with open(path, 'wb') as f:
            for x in (0x1950a86a20f9469cfc6c, 1001, {'little_endian': True}):
                pickle.dump(x, f, 2)
            Pickler(f, 2).dump({'state_dict': state})
            pickle.dump([s.key for s in stores], f, 2)
            for s in stores:
                f.write(struct.pack('<q', s.count) + s.data)
        return
    with zipfile.ZipFile(path, 'w') as z:
        with z.open('archive/data.pkl', 'w') as f:
            Pickler(f, 2).dump({'state_dict': state, 'epoch': 1})
        for s in stores:
            z.writestr('archive/data/' + s.key, s.data)
        z.writestr('archive/version', '3\n')


def change(tensors, words):
    for word in words:
        what, name = word.split('=')
        if what == 'drop':
            del tensors[name]
        elif what in ('add', 'zero'):
            tensors[name] = ([2], (1.0, 2.0) if what == 'add' else (0.0, 0.0))
        else:
            shape, x = tensors[name]
            tensors[name] = ([shape[0] // 2] + shape[1:], x[:len(x) // 2])
    return tensors


def main(native, out, naming, form, dtype, *words):
    tensors = read(native)
    if '<' in dtype:
        dtype, of = dtype.split('<')
        tensors = {n: (s, rounded(x, of)) for n, (s, x) in tensors.items()}
    tensors = change(diffusers_names(tensors) if naming == 'diffusers' else tensors, words)
    if form == 'shards':
        write_shards(out, tensors, dtype, 'model')
    elif form == 'folder':
        write_shards(os.path.join(out, 'transformer'), tensors, dtype, 'diffusion_pytorch_model')
        with open(os.path.join(out, 'model_index.json'), 'w') as f:
            json.dump({'_class_name': 'SanaPipeline'}, f)
    elif form == 'safetensors':
        write_safetensors(out, tensors, dtype)
    else:
        write_pth(out, tensors, dtype, form == 'legacy')


main(*sys.argv[1:])
