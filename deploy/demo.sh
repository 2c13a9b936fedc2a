#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# demo.sh [BIN] - train a small Sana on icons through jobctl, and show what it learned
#
# BIN holds the programs (default: build/bin, or bin/ of the installation).  Ends with the loss curve, the pictures,
# the checkpoint and three commands to try next.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"
bin=${1:-../../bin}         # share/jobctl/demo.sh of an installation
if [ ! -d templates ]; then
    cd ..
    bin=${1:-build/bin}
fi
bin=$(cd "$bin" && pwd)
export PATH="$bin:$PATH"

echo "A small Sana (3.8 million parameters) learns 24 icons from their captions, on this machine's GPU if"
echo "it has one, else on its CPU."
echo
begin=$SECONDS
rc=0
jobctl submit --follow templates/sana-icons.yaml || rc=$?
if [ "$rc" != 0 ]; then
    echo
    echo "The demo did not end well (exit $rc). This says why:  jobctl why last"
    exit "$rc"
fi
id=$(jobctl status -a -n 1 -q sana-icons | tail -n 1)
dir=$(jobctl show "$id" | sed -n 's/^ *checkpoints  *//p')
newest=$(find "$dir" -maxdepth 1 -name 'step-*' | sort | tail -n 1)

echo
echo "The loss, from the first step to the last:"
echo
jobctl show "$id" --metrics | awk -F, 'NR > 1 { loss[++n] = sprintf("  step %5d   loss %.4f", $1, $2) }
    END { for (i = 0; i <= 8 && n; i++) print loss[1 + int(i * (n - 1) / 8)] }'
jobctl show "$id" --report "$dir/run.html" >/dev/null
echo
grep -h 'nearest to their own original' "${dir%/checkpoints}"/*/rank0.log | tail -n 1 || true
echo
echo "  pictures    $(find "$dir/samples" -name 'step-*.png' | sort | tail -n 1)"
echo "              original | before training | after training, for each caption"
echo "  loss curve  $dir/run.html"
echo "  checkpoint  $newest"
echo "  time        $((SECONDS - begin)) s"
echo
run=$(printf %q "$bin/")       # to be copied into a shell as they stand
echo "Three things to try next:"
echo
echo "  # draw captions of your own"
echo "  ${run}jobctl-train sample --dir $(printf %q "$dir") \\"
echo "      --captions 'face monkey; weather snow; user home' --out mine.png"
echo
echo "  # what happened, and why"
echo "  ${run}jobctl why $id"
echo
echo "  # the same with another seed; kill -9 its jobctl-train in the middle and watch it come back"
echo "  ${run}jobctl submit --follow $(printf %q "$PWD/templates/sana-icons.yaml") --set train.seed=2"
