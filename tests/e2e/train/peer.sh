#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# alone: speeds are compared
# The PyTorch peer for speed comparisons is right (it passes the golden cases) and runs: in fp32, with bf16 autocast as
# on a GPU, and its work is counted like ours.
python=${PYTHON:-/usr/bin/python3}
"$python" -c 'import torch, numpy' 2>/dev/null || { echo "$python cannot import torch"; exit 77; }
cd "$TOP"
"$python" tests/bench/sana_torch.py verify tests/golden/sana/tiny-*[a-z].json
for how in "" "--bf16 --batch 2"; do
    # shellcheck disable=SC2086
    "$python" tests/bench/sana_torch.py bench --case tiny-base-b8 --steps 2 --warmup 1 --peak 989 $how \
        --json >"$WORK/peer"
    "$python" - "$WORK/peer" "$how" <<'PY'
import json, sys
r = json.load(open(sys.argv[1]))
batch = 2 if sys.argv[2] else 8
assert r["batch"] == batch and r["bf16"] == bool(sys.argv[2]), r
assert 0 < r["loss"] < 10 and r["mfu"] > 0, r
PY
done
ours=$(jobctl-train bench --config tests/golden/sana/bench_configs.json --case tiny-base-b8 --steps 1 --json)
"$python" - "$WORK/peer" "$ours" <<'PY'
import json, sys
peer, ours = json.load(open(sys.argv[1])), json.loads(sys.argv[2])
a = peer["tflops"] * peer["ms_median"] / peer["batch"]
b = ours["gflops"] * ours["ms_median"] / 8e3
assert abs(a / b - 1) < 1e-2, (a, b)
PY
