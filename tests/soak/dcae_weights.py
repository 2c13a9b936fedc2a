# SPDX-License-Identifier: Apache-2.0
"""dcae_weights.py FILE: random weights of bf16 with the names and sizes of dc-ae-f32c32-sana, 0.6 GB"""
import json
import os
import struct
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BLOCK = 1 << 22


def main(path):
    with open(os.path.join(TOP, 'tests/golden/vae/names-dc-ae-f32c32-sana.json')) as f:
        table = json.load(f)['map']
    head, at = {}, 0
    for row in table:
        n = 2
        for edge in row['authors_shape']:
            n *= edge
        head[row['authors']] = {'dtype': 'BF16', 'shape': row['authors_shape'], 'data_offsets': [at, at + n]}
        at += n
    text = json.dumps(head).encode()
    block = bytearray(2 * BLOCK)  # of 0.008 to 0.031, of both signs
    block[0::2] = os.urandom(BLOCK)
    block[1::2] = os.urandom(BLOCK).translate(bytes(0x3C | (i & 0x80) for i in range(256)))
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text)
        while at > 0:
            at -= f.write(block[:at])


main(sys.argv[1])
