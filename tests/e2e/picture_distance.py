# SPDX-License-Identifier: Apache-2.0
"""picture_distance.py A.png B.png [MOST]: the largest difference of 8-bit RGB pixels, and its mean; fails beyond MOST.
Transparency is dropped, as encoders: sana drop it."""
import struct
import sys
import zlib


def read(path):
    data = open(path, 'rb').read()
    at, body, size = 8, b'', None
    while at < len(data):
        n, kind = struct.unpack('>I4s', data[at:at + 8])
        part = data[at + 8:at + 8 + n]
        if kind == b'IHDR':
            size = struct.unpack('>IIBB', part[:10])
        if kind == b'IDAT':
            body += part
        at += n + 12
    width, height, bits, colour = size
    assert bits == 8 and colour in (2, 6), path
    each = 3 if colour == 2 else 4
    x = unfilter(zlib.decompress(body), each * width, height, each)
    return width, height, x if each == 3 else [v for i, v in enumerate(x) if i % 4 < 3]


def predict(kind, left, up, corner):
    if kind < 4:
        return (0, left, up, (left + up) // 2)[kind]
    p = left + up - corner
    return min((abs(p - left), 0, left), (abs(p - up), 1, up), (abs(p - corner), 2, corner))[2]


def unfilter(raw, stride, height, each):
    out, before = [], [0] * stride
    for y in range(height):
        kind, line = raw[y * (stride + 1)], list(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for i in range(stride):
            left, corner = (line[i - each], before[i - each]) if i >= each else (0, 0)
            line[i] = (line[i] + predict(kind, left, before[i], corner)) & 255
        out += line
        before = line
    return out


def main(a, b, most=255):
    x, y = read(a), read(b)
    assert x[:2] == y[:2], 'sizes differ: %s and %s' % (x[:2], y[:2])
    differences = [abs(p - q) for p, q in zip(x[2], y[2])]
    print('%s and %s: at most %d, %.2f on average' % (a, b, max(differences), sum(differences) / len(differences)))
    return max(differences) > int(most)


sys.exit(main(*sys.argv[1:]))
