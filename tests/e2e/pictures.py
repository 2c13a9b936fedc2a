#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# pictures.py DIR - 53 pictures in six shapes with captions, no two alike; one shape has a single one
import os
import struct
import sys
import zlib

SHAPES = [(96, 32, 14), (48, 48, 17), (32, 96, 9), (80, 50, 7), (50, 80, 5), (128, 32, 1)]


def chunk(kind, body):
    return struct.pack('>I', len(body)) + kind + body + struct.pack('>I', zlib.crc32(kind + body))


def write_png(path, width, height, seed):
    def pixel(x, y, c):
        return (x * 5 + seed * 31, y * 7 + seed, seed * 4)[c] & 255
    rows = b''.join(b'\0' + bytes(pixel(x, y, c) for x in range(width) for c in range(3))
                    for y in range(height))
    header = struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0)
    with open(path, 'wb') as f:
        f.write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', header) + chunk(b'IDAT', zlib.compress(rows)) +
                chunk(b'IEND', b''))


os.mkdir(sys.argv[1])
with open(sys.argv[1] + '/captions.jsonl', 'w') as captions:
    n = 0
    for width, height, count in SHAPES:
        for i in range(count):
            n += 1
            name = f'p{n * 7 % 54:02}.png' # not in order of shape
            write_png(f'{sys.argv[1]}/{name}', width, height, n)
            captions.write(f'{{"file":"{name}","text":"thing {i} of {width}"}}\n')
