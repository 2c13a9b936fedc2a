#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh replay TARGET...        - each target over its corpus, once
# run.sh fuzz SECONDS TARGET...  - each target under libFuzzer for SECONDS
#
# What a fuzzer finds is left in build/fuzz/NOUN/: new inputs that reach new
# code in found/, inputs that crash as crash-*.  After the fix a crash goes
# into tests/fuzz/corpus/NOUN/ under a telling name.
set -u
cd "$(dirname "$0")/../.." || exit 1
what=$1 bad=0
shift
if [ "$what" = fuzz ]; then
    seconds=$1
    shift
fi
# Targets that need a file get it in memory, and a crash leaves none.
[ ! -w /dev/shm ] || TMPDIR=/dev/shm
TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/jobctl-fuzz.XXXXXX")
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
log=$TMPDIR/log
for target in "$@"; do
    noun=$(basename "$target")
    noun=${noun#fuzz_}
    corpus=(tests/fuzz/corpus/"$noun")
    [ "$noun" != jobspec ] || corpus+=(tests/specs)
    if [ "$what" = replay ]; then
        "$target" "${corpus[@]}" 2>"$log" && continue
        echo "FAILED $noun: $(grep -a "^tests/" "$log" | tail -n 1)"
        sed 's/^/    /' "$log" | tail -n 40
        bad=1
    else
        found=build/fuzz/$noun
        mkdir -p "$found/found"
        dict=tests/fuzz/$noun.dict
        args=(-max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10
            -artifact_prefix="$found/" -print_final_stats=1)
        [ ! -f "$dict" ] || args+=(-dict="$dict")
        if "$target" "${args[@]}" "$found/found" "${corpus[@]}" >"$log" 2>&1; then
            echo "$noun: $(sed -n 's/^stat::number_of_executed_units: //p' "$log") runs in $seconds s, nothing found"
        else
            echo "FAILED $noun:"
            grep -aE 'ERROR|runtime error|broken promise|SUMMARY|Test unit written|^    #[0-9] ' "$log" | head -n 30
            bad=1
        fi
    fi
done
exit $bad
