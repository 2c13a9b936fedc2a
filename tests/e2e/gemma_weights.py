# SPDX-License-Identifier: Apache-2.0
"""gemma_weights.py DIR [tiny [1]]: config.json and random weights of bf16 with the sizes of Gemma-2 2B, 5.2 GB, or tiny;
1: a Gemma 1"""
import sys
sys.path.pop(0)  # the json.py beside this file is another

import json  # noqa: E402
import os  # noqa: E402
import struct  # noqa: E402

TINY = sys.argv[2:3] == ['tiny']
FIRST = sys.argv[3:] == ['1']
V, D, WIDE, LAYERS, HEADS, KV_HEADS, DIM = (900, 32, 48, 3, 4, 2, 8) if TINY else (256000, 2304, 9216, 26, 8, 4, 256)
Q, KV, BLOCK = HEADS * DIM, KV_HEADS * DIM, 1 << 16 if TINY else 1 << 24
CONFIG = {'model_type': 'gemma2', 'vocab_size': V, 'hidden_size': D, 'intermediate_size': WIDE,
          'num_hidden_layers': LAYERS, 'num_attention_heads': HEADS, 'num_key_value_heads': KV_HEADS, 'head_dim': DIM,
          'query_pre_attn_scalar': DIM, 'sliding_window': 4096, 'attn_logit_softcapping': 50.0}

if FIRST:
    CONFIG['model_type'] = 'gemma'


def shapes():
    yield 'model.embed_tokens.weight', [V, D]
    for i in range(LAYERS):
        for name, shape in (('self_attn.q_proj', [Q, D]), ('self_attn.k_proj', [KV, D]), ('self_attn.v_proj', [KV, D]),
                            ('self_attn.o_proj', [D, Q]), ('mlp.gate_proj', [WIDE, D]), ('mlp.up_proj', [WIDE, D]),
                            ('mlp.down_proj', [D, WIDE]), ('input_layernorm', [D]), ('post_attention_layernorm', [D]),
                            ('pre_feedforward_layernorm', [D]), ('post_feedforward_layernorm', [D]))[:9 if FIRST else 11]:
            yield 'model.layers.%d.%s.weight' % (i, name), shape
    yield 'model.norm.weight', [D]


def numbers():
    """A block of bf16 of 0.008 to 0.031, of both signs."""
    block = bytearray(2 * BLOCK)
    block[0::2] = os.urandom(BLOCK)
    block[1::2] = os.urandom(BLOCK).translate(bytes(0x3C | (i & 0x80) for i in range(256)))
    return bytes(block)


def main(folder):
    head, at = {}, 0
    for name, shape in shapes():
        n = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        head[name] = {'dtype': 'BF16', 'shape': shape, 'data_offsets': [at, at + n]}
        at += n
    text, block = json.dumps(head).encode(), numbers()
    with open(os.path.join(folder, 'model.safetensors'), 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text)
        while at > 0:
            at -= f.write(block[:at])
    with open(os.path.join(folder, 'config.json'), 'w') as f:
        json.dump(CONFIG, f)


main(sys.argv[1])
