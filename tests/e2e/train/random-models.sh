#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The engine against PyTorch on twelve random configurations, and on five of each kind of encoder.
/usr/bin/python3 -c 'import torch, numpy' 2>/dev/null || { echo "python3-torch is not installed"; exit 77; }
/usr/bin/python3 "$TOP/tests/bench/random_cases.py" "$WORK/cases" --count 12 --seed 11
/usr/bin/python3 "$TOP/tests/bench/random_encoders.py" "$WORK/encoders" --count 5 --seed 11
"$BIN/jobctl-verify" "$WORK"/cases/*.json "$WORK"/encoders/*.json

# And it can fail: one weight changed in one case of each kind.
change() { # CASE TENSOR
    /usr/bin/python3 - "$WORK/$1.safetensors" "$2" <<'PY'
import json, struct, sys
path = sys.argv[1]
raw = bytearray(open(path, "rb").read())
size, = struct.unpack("<Q", raw[:8])
at = 8 + size + json.loads(raw[8:8 + size])[sys.argv[2]]["data_offsets"][0]
raw[at:at + 4] = struct.pack("<f", struct.unpack("<f", raw[at:at + 4])[0] + 0.01)
open(path, "wb").write(raw)
PY
    ! "$BIN/jobctl-verify" "$WORK/$1.json" || exit 1
}
change cases/random-11-0 blocks.0.attn.proj.weight
change encoders/dcae-0 encoder.project_in.conv.weight
change encoders/kl-0 decoder.conv_in.weight
change encoders/gemma2-0 layers.0.self_attn.o_proj.weight
change encoders/gemma1-0 layers.0.mlp.down_proj.weight
