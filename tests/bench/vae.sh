#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# vae.sh BIN [HALF:SIZE:TARGET...] - DC-AE at its real widths against plain PyTorch, turn by turn
#
# As compare.sh: both run in each round, one after the other, and only the ratio of the medians is a result.  PyTorch
# runs in both memory formats, and its faster one counts.  Weights are random: the time does not depend on them.
# Rounds: $ROUNDS, default 3.
#
# Exit 1 if a ratio is below its TARGET; 0 also when there is no PyTorch here.
set -euo pipefail
bin=$1
shift
[ $# -gt 0 ] || set -- encode:256:1.2 decode:256:1.2
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-/usr/bin/python3}
rounds=${ROUNDS:-3}
threads=${OMP_NUM_THREADS:-$(nproc)}

if ! "$python" -c 'import torch' 2>/dev/null; then
    echo "bench: skipped, because $python cannot import torch (deploy/bootstrap.sh --all installs it)"
    exit 0
fi

ours() {
    OMP_NUM_THREADS=$threads "$bin/jobctl-train" vae bench --half "$1" --size "$2" --runs 3 --json
}
theirs() {
    OMP_NUM_THREADS=$threads "$python" "$here/vae_torch.py" --half "$1" --size "$2" --runs 3 --threads "$threads" "${@:3}"
}

bad=0
for case in "$@"; do
    IFS=: read -r half size target <<<"$case"
    for ((i = 0; i < rounds; i++)); do
        echo "ours $(ours "$half" "$size")"
        echo "plain $(theirs "$half" "$size")"
        echo "last $(theirs "$half" "$size" --channels-last)"
    done | "$python" -c '
import json, statistics, sys
half, size, target = sys.argv[1], sys.argv[2], float(sys.argv[3])
rows = {}
for line in sys.stdin:
    who, data = line.split(" ", 1)
    rows.setdefault(who, []).append(json.loads(data))
def middle(who, key):
    return statistics.median(r[key] for r in rows[who])
for key, what in (("s_median", "wall"), ("cpu_s", "processor")):
    peer = min(("plain", "last"), key=lambda who: middle(who, key))
    ratio = middle(peer, key) / middle("ours", key)
    print("%s %s px, %s: ours %.2f s, PyTorch %.2f s (%s): %.2f times as fast"
          % (half, size, what, middle("ours", key), middle(peer, key),
             "channels last" if peer == "last" else "contiguous", ratio), flush=True)
    if key == "s_median" and ratio < target:
        sys.exit("%s: below its target of %.1f" % (half, target))
' "$half" "$size" "$target" || bad=1
done
exit $bad
