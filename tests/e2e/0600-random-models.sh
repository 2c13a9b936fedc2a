#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The engine against PyTorch on twelve configurations that nobody chose.
/usr/bin/python3 -c 'import torch, numpy' 2>/dev/null || { echo "python3-torch is not installed"; exit 77; }
/usr/bin/python3 "$TOP/tests/bench/random_cases.py" "$WORK/cases" --count 12 --seed 11
"$BIN/jobctl-train" verify "$WORK"/cases/*.json

# And it can fail: one weight changed in one case.
/usr/bin/python3 - "$WORK/cases/random-11-0.safetensors" <<'PY'
import json, struct, sys
path = sys.argv[1]
raw = bytearray(open(path, "rb").read())
size, = struct.unpack("<Q", raw[:8])
at = 8 + size + json.loads(raw[8:8 + size])["blocks.0.attn.proj.weight"]["data_offsets"][0]
raw[at:at + 4] = struct.pack("<f", struct.unpack("<f", raw[at:at + 4])[0] + 0.01)
open(path, "wb").write(raw)
PY
! "$BIN/jobctl-train" verify "$WORK/cases/random-11-0.json" || exit 1
