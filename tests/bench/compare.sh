#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# compare.sh BIN [CASE:STEPS:TARGET...] - the engine against PyTorch, turn by turn
#
# A host's speed wanders by half within minutes, so the two are never timed
# apart: each round runs one and then the other, the next round the other way
# round, and only the ratio of the medians is a result.  PyTorch has its best
# setting (sana_torch.py).  Rounds: $ROUNDS, default 7.  The fastest step of
# each is shown too: where other work shares the machine, it is nearest to what
# either can do.
#
# Exit 1 if a ratio is below its TARGET; 0 also when there is no PyTorch here.
set -euo pipefail
bin=$1
shift
[ $# -gt 0 ] || set -- tiny-base-b8:300:4.0 small-b4:12:2.0
here=$(cd "$(dirname "$0")" && pwd)
configs=$here/../golden/sana/bench_configs.json
python=${PYTHON:-/usr/bin/python3}
rounds=${ROUNDS:-7}
threads=$(nproc)

if ! "$python" -c 'import torch, numpy' 2>/dev/null; then
    echo "bench: skipped, because $python cannot import torch (deploy/bootstrap.sh --all installs it)"
    exit 0
fi

ms() {
    "$python" -c 'import json, sys
d = json.loads(sys.stdin.readlines()[-1])
print("%.3f %.3f" % (d["ms_median"], d["ms_min"]))'
}
ours() {
    OMP_NUM_THREADS=${OMP_NUM_THREADS:-$threads} \
        "$bin/jobctl-train" bench --config "$configs" --case "$1" --steps "$2" --json | ms
}
theirs() {
    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=$threads \
        "$python" "$here/sana_torch.py" bench --config "$configs" --case "$1" --steps "$2" \
        --threads "$threads" --json | ms
}
median() {
    sort -n | awk '{v[NR]=$1} END {print NR % 2 ? v[(NR+1)/2] : (v[NR/2] + v[NR/2+1]) / 2}'
}

echo "$(date -u +'%Y-%m-%d %H:%M UTC'), $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)," \
     "$threads cores, load $(cut -d' ' -f1 /proc/loadavg), torch $("$python" -c 'import torch; print(torch.__version__)')"
missed=0
for spec in "$@"; do
    IFS=: read -r case steps target <<<"$spec"
    echo "$case: fwd + loss + bwd + clip + AdamW, ms/step, median of $steps steps"
    a='' b='' a_min='' b_min=''
    for r in $(seq "$rounds"); do
        if [ $((r % 2)) = 1 ]; then
            us=$(ours "$case" "$steps"); them=$(theirs "$case" "$steps")
        else
            them=$(theirs "$case" "$steps"); us=$(ours "$case" "$steps")
        fi
        read -r x x_min <<<"$us"
        read -r y y_min <<<"$them"
        a+="$x"$'\n' b+="$y"$'\n' a_min+="$x_min"$'\n' b_min+="$y_min"$'\n'
        awk -v r="$r" -v x="$x" -v y="$y" \
            'BEGIN {printf "  round %d  jobctl-train %9.3f  pytorch %9.3f  %5.2fx\n", r, x, y, y / x}'
    done
    x=$(printf %s "$a_min" | sort -n | head -n 1) y=$(printf %s "$b_min" | sort -n | head -n 1)
    awk -v x="$x" -v y="$y" \
        'BEGIN {printf "  fastest  jobctl-train %9.3f  pytorch %9.3f  %5.2fx\n", x, y, y / x}'
    x=$(printf %s "$a" | median) y=$(printf %s "$b" | median)
    awk -v x="$x" -v y="$y" -v t="$target" 'BEGIN {
        printf "  median   jobctl-train %9.3f  pytorch %9.3f  %5.2fx  (target %sx: %s)\n",
               x, y, y / x, t, (y / x >= t ? "reached" : "missed")
        exit (y / x >= t ? 0 : 1) }' || missed=1
done
exit $missed
