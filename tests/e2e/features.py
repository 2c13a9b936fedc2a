# SPDX-License-Identifier: Apache-2.0
"""features.py OUT.safetensors CHANNELS WORDS WIDTH N:HxW ...: a shard of random features, with a group per N samples"""
import sys
sys.path.pop(0)  # the json.py beside this file is another

import json  # noqa: E402
import random  # noqa: E402
import struct  # noqa: E402

out, channels, words, width = sys.argv[1], *map(int, sys.argv[2:5])
draw = random.Random(5)
header, body = {}, b''


def put(name, shape, number):
    global body
    count = 1
    for n in shape:
        count *= n
    data = struct.pack('<%df' % count, *(number(i) for i in range(count)))
    header[name] = {'dtype': 'F32', 'shape': shape, 'data_offsets': [len(body), len(body) + len(data)]}
    body += data


def normal(_):
    return draw.gauss(0, 1)


for group, text in enumerate(sys.argv[5:]):
    n, size = text.split(':')
    tail = '.%d' % group if group else ''
    put('latent' + tail, [int(n), channels, *map(int, size.split('x'))], normal)
    put('caption' + tail, [int(n), words, width], normal)
    put('mask' + tail, [int(n), words], lambda i: float(i % words < 1 + i // words % words))
put('null', [words, width], lambda i: draw.choice((-1, 1)))  # exact in every type
head = json.dumps(header).encode()
with open(out, 'wb') as f:
    f.write(struct.pack('<Q', len(head)) + head + body)
