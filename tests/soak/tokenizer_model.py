# SPDX-License-Identifier: Apache-2.0
"""A tokenizer.model of 256,000 pieces made of nothing, the tokenizer.json of the same, and texts.

usage: tokenizer_model.py DIR SEED PIECES TEXTS

Writes DIR/tokenizer.model, DIR/tokenizer.json and DIR/texts (a line each, none has a line end, some are no UTF-8).
Every piece is two earlier ones, so that all can be reached; scores fall.
"""
import json
import random
import struct
import sys

SPACE = "\u2581"


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def piece(text, score, kind):
    return field(1, field(1, text.encode()) + b"\x15" + struct.pack("<f", score) + b"\x18" + varint(kind))


def make_pieces(rng, count):
    rows = [("<pad>", 0.0, 3), ("<eos>", 0.0, 3), ("<bos>", 0.0, 3), ("<unk>", 0.0, 2)]
    rows += [("\n" * n, 0.0, 4) for n in range(1, 6)] + [(SPACE * n, 0.0, 4) for n in range(2, 8)]
    rows += [("<0x%02X>" % b, 0.0, 6) for b in range(256)]
    letters = [chr(c) for c in range(97, 123)] + list("ABCD0123456789.,;:-()") + [SPACE]
    letters += [chr(c) for c in (0xE4, 0xE9, 0x3B1, 0x431, 0x5D0, 0x4E2D, 0x65E5, 0x3042, 0x1F600, 0x1F680)]
    often = letters + 20 * [SPACE] + 10 * list("etaoinshr")
    known, usable = set(letters) | {text for text, _, _ in rows}, list(letters)
    made = []
    while len(rows) + len(made) + len(letters) < count:
        text = rng.choice(usable) + (rng.choice(usable) if rng.random() < 0.5 else rng.choice(often))
        # User-defined pieces are frozen for SentencePiece: Gemma has none inside of another one.
        if len(text) <= 12 and text not in known and 2 * SPACE not in text:
            known.add(text)
            usable.append(text)
            made.append((text, -float(len(made) + 1), 1))
    rows_of_letters = [(c, -float(len(made) + 1 + i), 1) for i, c in enumerate(letters)]
    return rows + made + rows_of_letters, [text for text, _, _ in made]


def write_model(path, rows):
    trainer = b"\x18\x02" + varint(35 << 3) + b"\x01"
    normalizer = field(1, b"identity") + b"\x18\x00" + b"\x20\x00"
    with open(path, "wb") as f:
        f.write(b"".join(piece(*row) for row in rows) + field(2, trainer) + field(3, normalizer))


def write_json(path, rows):
    """As GemmaConvert of transformers does: merges are all splits into pieces, by score and lengths."""
    vocab = {("\t" if text == "<0x09>" else text): i for i, (text, _, _) in enumerate(rows)}
    known = set(vocab) | {"<0x09>"}
    merges = []
    for text, score, kind in rows:
        splits = [(text[:i], text[i:]) for i in range(1, len(text)) if text[:i] in known and text[i:] in known]
        merges += [(score, a, b) for a, b in splits if kind != 6]
    merges.sort(key=lambda m: (m[0], len(m[1]), len(m[2])), reverse=True)
    added = [{"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": kind != 4} for i, (text, _, kind) in enumerate(rows) if kind in (2, 3, 4)]
    with open(path, "w") as f:
        json.dump({"version": "1.0", "added_tokens": added,
                   "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": SPACE},
                   "model": {"type": "BPE", "byte_fallback": True, "vocab": vocab,
                             "merges": [a + " " + b for _, a, b in merges]}}, f, indent=1)


def make_text(rng, words):
    out = []
    for _ in range(rng.randrange(1, 40)):
        kind = rng.random()
        if kind < 0.7:
            out.append(rng.choice(words).replace(SPACE, " "))
        elif kind < 0.9 or (out and out[-1][-1] in (" ", "\u2581")):
            out.append(rng.choice(" aeiou.xyz"))
        else:
            out.append(rng.choice(["\t", "\u00fc", "\u2581", " ", "\U0001f9ea", "\u0e01", "<", "0x41>", "|"]))
    return "".join(out).encode()


def main():
    folder, seed, count, texts = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    rng = random.Random(seed)
    rows, words = make_pieces(rng, count)
    write_model(folder + "/tokenizer.model", rows)
    write_json(folder + "/tokenizer.json", rows)
    with open(folder + "/texts", "wb") as f:
        for _ in range(texts):
            text = bytearray(make_text(rng, words))
            if rng.random() < 0.05:
                text.insert(rng.randrange(len(text) + 1), rng.choice([0x80, 0xC3, 0xE2, 0xFF]))
            f.write(bytes(text) + b"\n")


main()
