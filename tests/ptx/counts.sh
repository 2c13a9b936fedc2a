#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# counts.sh PLUGIN CHECK_KERNELS VERSION - compares each kernel's counts at the shapes of Sana-1600M with counts.txt
#
# UPDATE=1 rewrites counts.txt. Counts are those of one VERSION of nvcc; with another one nothing is compared.
set -u
plugin=$(realpath "$1") kernels=$2 version=$3
kept=tests/ptx/counts.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

heading() {
    cat <<END
What each kernel does in a call at the shapes of Sana-1600M: 8 samples of 1024 tokens, bf16; products by cuBLASLt
apart. Counted in the PTX of nvcc $version for compute capability 8.0, in eight blocks of each launch, and multiplied
by all blocks. docs/MAINTAINING.md says how to read it; UPDATE=1 make ptx rewrites it.

k: thousands of instructions, a warp each. fp, int, conv: arithmetic; conversions, exp, 1/x; ctl: branches, barriers,
shuffles; glob, shar: memory; mma: tensor cores. MB: read and written in sectors of 32 bytes; at best: if neighbouring
lanes had neighbouring numbers. passes: of shared memory, k; at best: without bank conflicts.
END
    printf '\n%-31s %-11s %-8s %6s %5s %9s %9s %9s %9s %9s %9s %9s %8s %8s %9s %9s %9s %9s %8s %-13s %8s %-13s %8s %s\n' \
        kernel grid block shared calls 'fp k' 'int k' 'conv k' 'ctl k' 'glob k' 'shar k' 'mma k' GFLOP 'mma GF' MB 'at best' \
        passes 'at best' 'A100 ms' by 'H100 ms' by 'H200 ms' by
}

count() {
    heading >"$work/counts.txt"
    JOBCTL_CUBLASLT="$plugin" JOBCTL_CUDA_WAYS="graph tensor bgrad" OMP_NUM_THREADS=1 CUDA_CPU_GPU=a100 \
        CUDA_CPU_BARE=1 PTX_SAMPLE=8 PTX_COUNTS="$work/counts.txt" \
        "$kernels" "$plugin" bf16 --count >"$work/log" 2>&1 || { echo "FAILED ptx, counts:"; cat "$work/log"; exit 1; }
}

if [ -z "${UPDATE:-}" ] && ! grep -q "nvcc $version " $kept; then
    echo "ptx, counts: not compared: $kept is of another nvcc than $version"
    exit 0
fi
count
if [ -n "${UPDATE:-}" ]; then
    cp "$work/counts.txt" $kept
    echo "ptx, counts: $kept is rewritten: look at the diff"
elif diff -U0 $kept "$work/counts.txt" >"$work/diff"; then
    echo "ok     ptx, counts: $(($(wc -l <$kept) - 10)) kernels cost what $kept says"
else
    echo "FAILED ptx, counts: kernels cost something else than $kept says; if that is meant, UPDATE=1 make ptx:"
    cat "$work/diff"
    exit 1
fi
