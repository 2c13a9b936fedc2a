#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BIN PLUGIN CHECK_KERNELS - the CUDA backend on a real GPU: right first, then how fast
#
# Needs no make and no compiler: what it runs may have been built elsewhere.
# Prints a table; exits non-zero if anything failed.  Without a GPU it says so
# and ends well.
set -u
bin=$1 plugin=$2 kernels=$3
if [ ! -f "$plugin" ]; then
    if [ -e /dev/nvidiactl ]; then
        echo "there is a GPU, but no $plugin: it is built by make where nvcc is found" >&2
        exit 1
    fi
    echo "no CUDA device: skipped"
    exit 0
fi
plugin=$(realpath "$plugin")
export JOBCTL_CUDA="$plugin"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
bad=0
cases=$(ls tests/golden/sana/tiny-*[a-z].json)

"$kernels" "$plugin" fp32 >"$log" 2>&1
code=$?
if [ $code -eq 67 ]; then
    echo "no CUDA device: skipped"
    exit 0
fi
head -n 1 "$log"

part() {
    echo
    echo "== $1"
    shift
    timeout 300 "$@" >"$log" 2>&1
    code=$?
    cat "$log"
    [ $code -eq 0 ] || { echo "FAILED (exit $code)"; bad=1; }
}

for precision in fp32 bf16; do
    part "kernels against the CPU, $precision" "$kernels" "$plugin" $precision
    # shellcheck disable=SC2086
    part "golden cases, $precision" "$bin/jobctl-train" verify --backend cuda --precision $precision $cases
done

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
if [ -n "$sanitizer" ]; then
    part "compute-sanitizer memcheck" "$sanitizer" --error-exitcode 9 --tool memcheck \
        "$kernels" "$plugin" fp32
    part "compute-sanitizer racecheck" "$sanitizer" --error-exitcode 9 --tool racecheck \
        "$kernels" "$plugin" fp32
    part "compute-sanitizer synccheck" "$sanitizer" --error-exitcode 9 --tool synccheck \
        "$kernels" "$plugin" bf16
else
    echo
    echo "== compute-sanitizer is not installed: not run"
fi

part "speed of kernels, bf16" "$kernels" "$plugin" bf16 --time
for name in sana-600m-512 sana-1600m-512 sana-1600m-1024; do
    part "speed of a step: $name" "$bin/jobctl-train" bench --backend cuda --precision bf16 \
        --config tests/gpu/sana.json --case $name --steps 20
done

# The same steps in PyTorch, eager and compiled, at the same batch, right after ours. That it cannot
# run one (no torch.compile, no memory) is no failure of ours.
python=${PYTHON:-python3}
if "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    for name in sana-600m-512 sana-1600m-512 sana-1600m-1024; do
        for how in "" --compile; do
            echo
            echo "== PyTorch${how:+, compiled}: $name"
            # shellcheck disable=SC2086
            timeout 300 "$python" tests/bench/sana_torch.py bench --device cuda --bf16 $how \
                --config tests/gpu/sana.json --case $name --steps 20 --warmup 5 --peak 989 2>&1 |
                tail -n 3
        done
    done
else
    echo
    echo "== $python has no PyTorch that finds the GPU: nothing to compare with"
fi
echo
[ $bad -eq 0 ] && echo "check-gpu: all passed" || echo "check-gpu: FAILED"
exit $bad
