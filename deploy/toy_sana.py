#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""toy_sana.py DIR DATA: the parts of a Sana pipeline beside its transformer, so small that they need no download

DIR/vae            a DC-AE: 4 x 4 pixels become 32 channels. Its weights are computed, not trained: shortcuts carry the
                   pixels, the last convolution is their cosine transform (16 coefficients of brightness, 8 of each of two
                   colours), the decoder's first is its inverse; residual and attention blocks add nothing.
DIR/text_encoder   a Gemma-2 of 2 layers with random weights: it tells texts apart, and knows nothing of them
DIR/tokenizer      its vocabulary: bytes, letters and the words of the captions DATA/*.txt
"""
import glob
import json
import math
import os
import random
import struct
import sys

WIDTHS, LATENT, SIDE = (4, 16, 64), 32, 4
CONSTANT = 30.0                     # fourth channel of the decoder's pixels: it makes the last norm nearly linear
HIDDEN, INNER, LAYERS, HEADS, KV_HEADS, DIM = 64, 128, 2, 2, 1, 32
COLOURS = ([3 ** -0.5] * 3, [2 ** -0.5, 0, -2 ** -0.5], [6 ** -0.5, -2 * 6 ** -0.5, 6 ** -0.5])
rng = random.Random(1)


def noise(shape, deviation):
    return shape, [rng.gauss(0, deviation) for _ in range(math.prod(shape))]


def full(shape, value=0.0):
    return shape, [value] * math.prod(shape)


def pack(dtype, x):
    raw = struct.pack('<%df' % len(x), *x)
    return raw if dtype == 'F32' else b''.join(raw[i + 2:i + 4] for i in range(0, len(raw), 4))


def write(folder, name, tensors, config, exact=()):
    """`exact`: tensors of fp32; the others are bf16."""
    os.makedirs(folder, exist_ok=True)
    head, body, at = {}, [], 0
    for key, (shape, x) in tensors.items():
        dtype = 'F32' if key in exact else 'BF16'
        body.append(pack(dtype, x))
        head[key] = {'dtype': dtype, 'shape': list(shape), 'data_offsets': [at, at + len(body[-1])]}
        at += len(body[-1])
    text = json.dumps(head).encode()
    with open(os.path.join(folder, name), 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text + b''.join(body))
    with open(os.path.join(folder, 'config.json'), 'w') as f:
        json.dump(config, f, indent=1)


# --- the autoencoder ----------------------------------------------------------------------------

def res_block(at, c):
    return {at + '.conv1.weight': noise((c, c, 3, 3), 0.05), at + '.conv1.bias': full((c,)),
            at + '.conv2.weight': full((c, c, 3, 3)), at + '.norm.weight': full((c,), 1), at + '.norm.bias': full((c,))}


def attention_block(at, c):
    out = {at + '.attn.to_%s.weight' % p: noise((c, c), 0.05) for p in 'qkv'}
    out.update({
        at + '.attn.to_qkv_multiscale.0.proj_in.weight': noise((3 * c, 1, 5, 5), 0.05),
        at + '.attn.to_qkv_multiscale.0.proj_out.weight': noise((3 * c, 32, 1, 1), 0.05),
        at + '.attn.to_out.weight': full((c, 2 * c)),
        at + '.attn.norm_out.weight': full((c,), 1), at + '.attn.norm_out.bias': full((c,)),
        at + '.conv_out.conv_inverted.weight': noise((8 * c, c, 1, 1), 0.05),
        at + '.conv_out.conv_inverted.bias': full((8 * c,)),
        at + '.conv_out.conv_depth.weight': noise((8 * c, 1, 3, 3), 0.05), at + '.conv_out.conv_depth.bias': full((8 * c,)),
        at + '.conv_out.conv_point.weight': full((c, 4 * c, 1, 1)),
        at + '.conv_out.norm.weight': full((c,), 1), at + '.conv_out.norm.bias': full((c,))})
    return out


def centre(matrix):
    """A matrix as a 3 x 3 convolution that sees one pixel."""
    x = []
    for row in matrix:
        for value in row:
            x += [0.0] * 4 + [value] + [0.0] * 4
    return (len(matrix), len(matrix[0]), 3, 3), x


def place(y, x):
    """The number that a pixel of a block has after two pixel unshuffles."""
    return ((y & 1) * 2 + (x & 1)) * 4 + (y >> 1 & 1) * 2 + (x >> 1 & 1)


def frequencies(count):
    both = sorted((u + v, max(u, v), u, v) for u in range(SIDE) for v in range(SIDE))
    return [(u, v) for _, _, u, v in both[:count]]


def transform():
    """[(row of 64 pixel channels, deviation)] of the latent's channels."""
    def wave(u, y):
        return math.cos(math.pi * (2 * y + 1) * u / (2 * SIDE)) * math.sqrt((2 if u else 1) / SIDE)
    out = []
    for colour, count in zip(COLOURS, (16, 8, 8)):
        for u, v in frequencies(count):
            row = [0.0] * WIDTHS[2]
            for c in range(3):
                for y in range(SIDE):
                    for x in range(SIDE):
                        row[c * 16 + place(y, x)] = colour[c] * wave(u, y) * wave(v, x)
            out.append((row, (3.5 if u + v == 0 else 1.2 / (u + v)) * (1 if colour is COLOURS[0] else 0.4)))
    return out


def autoencoder(folder):
    t, rows, group = {}, transform(), WIDTHS[2] // LATENT
    t['encoder.conv_in.weight'] = centre([[float(o == i) for i in range(3)] for o in range(4)])
    t['encoder.conv_in.bias'] = full((4,))
    for i in range(2):
        t.update(res_block('encoder.down_blocks.%d.0' % i, WIDTHS[i]))
        t['encoder.down_blocks.%d.1.conv.weight' % i] = full((WIDTHS[i + 1], WIDTHS[i], 3, 3))
        t['encoder.down_blocks.%d.1.conv.bias' % i] = full((WIDTHS[i + 1],))
        t['decoder.up_blocks.%d.0.conv.weight' % i] = full((WIDTHS[i], WIDTHS[i + 1], 3, 3))
        t['decoder.up_blocks.%d.0.conv.bias' % i] = full((WIDTHS[i],))
        t.update(res_block('decoder.up_blocks.%d.1' % i, WIDTHS[i]))
    t.update(attention_block('encoder.down_blocks.2.0', WIDTHS[2]))
    t.update(attention_block('decoder.up_blocks.2.0', WIDTHS[2]))
    # Shortcuts: the mean of each two channels is added at the encoder's end, each channel twice at the decoder's begin.
    t['encoder.conv_out.weight'] = centre([[row[i] / s - (i // group == o) / group for i in range(WIDTHS[2])]
                                           for o, (row, s) in enumerate(rows)])
    t['encoder.conv_out.bias'] = full((LATENT,))
    t['decoder.conv_in.weight'] = centre([[row[i] * s - float(i // group == o) for o, (row, s) in enumerate(rows)]
                                          for i in range(WIDTHS[2])])
    t['decoder.conv_in.bias'] = (WIDTHS[2],), [CONSTANT if i >= 48 else 0.0 for i in range(WIDTHS[2])]
    # norm: x / sqrt(mean x^2) = x / (CONSTANT / 2), nearly; 4 is added for ReLU, and taken away behind it
    t['decoder.norm_out.weight'] = full((4,), CONSTANT / 2)
    t['decoder.norm_out.bias'] = full((4,), 4)
    t['decoder.conv_out.weight'] = centre([[float(o == i) for i in range(4)] for o in range(3)])
    t['decoder.conv_out.bias'] = full((3,), -4)
    exact = ('encoder.conv_out.weight', 'decoder.conv_in.weight')
    write(folder, 'diffusion_pytorch_model.safetensors', t, {'_class_name': 'AutoencoderDC', 'scaling_factor': 1.0}, exact)


# --- the text encoder ---------------------------------------------------------------------------

def gemma(folder, vocabulary):
    q, kv = HEADS * DIM, KV_HEADS * DIM
    t = {'model.embed_tokens.weight': noise((vocabulary, HIDDEN), 0.1)}
    for i in range(LAYERS):
        for name, shape in (('self_attn.q_proj', (q, HIDDEN)), ('self_attn.k_proj', (kv, HIDDEN)),
                            ('self_attn.v_proj', (kv, HIDDEN)), ('self_attn.o_proj', (HIDDEN, q)),
                            ('mlp.gate_proj', (INNER, HIDDEN)), ('mlp.up_proj', (INNER, HIDDEN)),
                            ('mlp.down_proj', (HIDDEN, INNER))):
            t['model.layers.%d.%s.weight' % (i, name)] = noise(shape, shape[1] ** -0.5)
        for name in ('input_layernorm', 'post_attention_layernorm', 'pre_feedforward_layernorm',
                     'post_feedforward_layernorm'):
            t['model.layers.%d.%s.weight' % (i, name)] = full((HIDDEN,))
    t['model.norm.weight'] = full((HIDDEN,))
    write(folder, 'model.safetensors', t, {
        'model_type': 'gemma2', 'vocab_size': vocabulary, 'hidden_size': HIDDEN, 'intermediate_size': INNER,
        'num_hidden_layers': LAYERS, 'num_attention_heads': HEADS, 'num_key_value_heads': KV_HEADS, 'head_dim': DIM,
        'query_pre_attn_scalar': DIM, 'sliding_window': 4096, 'attn_logit_softcapping': 50.0})


def tokenizer(folder, words):
    """Letters are joined from the left: c a -> ca, ca t -> cat."""
    special = ['<pad>', '<eos>', '<bos>', '<unk>']
    pieces = special + ['<0x%02X>' % i for i in range(256)] + ['\u2581'] + [chr(i) for i in range(33, 127)]
    merges = []
    for word in words:
        for n in range(1, len(word)):
            if word[:n + 1] not in pieces:
                pieces.append(word[:n + 1])
                merges.append(word[:n] + ' ' + word[n])
    bos = [{'SpecialToken': {'id': '<bos>', 'type_id': 0}}, {'Sequence': {'id': 'A', 'type_id': 0}}]
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, 'tokenizer.json'), 'w') as f:
        json.dump({
            'version': '1.0', 'truncation': None, 'padding': None,
            'added_tokens': [{'id': i, 'content': c, 'single_word': False, 'lstrip': False, 'rstrip': False,
                              'normalized': False, 'special': True} for i, c in enumerate(special)],
            'normalizer': {'type': 'Replace', 'pattern': {'String': ' '}, 'content': '\u2581'},
            'pre_tokenizer': {'type': 'Split', 'pattern': {'String': ' '}, 'behavior': 'MergedWithPrevious',
                              'invert': False},
            'post_processor': {'type': 'TemplateProcessing', 'single': bos, 'pair': bos + bos, 'special_tokens': {
                '<bos>': {'id': '<bos>', 'ids': [2], 'tokens': ['<bos>']}}},
            'decoder': {'type': 'Sequence', 'decoders': [
                {'type': 'Replace', 'pattern': {'String': '\u2581'}, 'content': ' '}, {'type': 'ByteFallback'},
                {'type': 'Fuse'}]},
            'model': {'type': 'BPE', 'dropout': None, 'unk_token': '<unk>', 'continuing_subword_prefix': None,
                      'end_of_word_suffix': None, 'fuse_unk': True, 'byte_fallback': True, 'ignore_merges': False,
                      'vocab': {p: i for i, p in enumerate(pieces)}, 'merges': merges}}, f)
    return len(pieces)


def main(folder, data):
    words = set()
    for name in glob.glob(os.path.join(data, '*.txt')):
        with open(name) as f:
            words.update(f.read().split())
    autoencoder(os.path.join(folder, 'vae'))
    gemma(os.path.join(folder, 'text_encoder'), tokenizer(os.path.join(folder, 'tokenizer'), sorted(words)))
    with open(os.path.join(folder, 'model_index.json'), 'w') as f:
        json.dump({'_class_name': 'SanaPipeline'}, f)


main(*sys.argv[1:])
