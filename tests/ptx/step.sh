#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# step.sh PLUGIN BIN NVCC - each kernel of a training step of a real model, counted, against step-MODEL-SAMPLES.txt
#
# The step is that of `jobctl-train bench --profile`, in its real size: arrays are never touched but by the few blocks of
# each kernel that run. UPDATE=1 rewrites the files. Counts are those of one version of nvcc; with another one nothing is
# compared.
set -eu
plugin=$(realpath "$1") bin=$2 nvcc=$3
version=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

heading() { # MODEL SAMPLES GPU
    cat <<END
What each kernel of a step of $1 does: $2 samples, bf16, with the shared memory of the GPU "$3"; products by cuBLASLt
apart. Counted in the PTX of nvcc $version for compute capability 8.0, in two blocks of each launch, and multiplied by all
blocks. Numbers are those of a call; the columns are those of counts.txt. UPDATE=1 make ptx SWEEP=all rewrites it.

END
    sed -n '/^kernel  /p' tests/ptx/counts.txt
}

count() { # MODEL SAMPLES GPU
    heading "$@" >"$work/step.txt"
    sed "s/\"batch\": [0-9]*/\"batch\": $2/" tests/gpu/models.json >"$work/models.json"
    JOBCTL_CUDA="$plugin" JOBCTL_CUBLASLT="$plugin" JOBCTL_CUDA_WAYS="tensor bgrad" CUDA_CPU_GPU="$3" CUDA_CPU_BARE=1 \
        CUDA_CPU_LAZY=1 PTX_SAMPLE=2 PTX_COUNTS="$work/step.txt" PTX_COUNTS_TIMED=1 \
        "$bin/jobctl-train" bench --backend cuda --precision bf16 --config "$work/models.json" --case "$1" \
        --steps 1 --warmup 0 --profile >"$work/profile" 2>&1 ||
        { echo "FAILED ptx, step of $1:"; cat "$work/profile"; exit 1; }
}

at_best() { # GPU
    tests/gpu/roofline.sh "$1" "$work/step.txt" <"$work/profile" | sed -n 's/^\([0-9]*\).* ms at best of .*/\1 ms/p'
}

# compare MODEL SAMPLES GPU - the counts of that step, with the shared memory of that GPU
compare() {
    kept=tests/ptx/step-$1-$2.txt
    if [ -z "${UPDATE:-}" ] && ! grep -q "nvcc $version " "$kept"; then
        echo "ptx, step: not compared: $kept is of another nvcc than $version"
        return
    fi
    count "$@"
    if [ -n "${UPDATE:-}" ]; then
        cp "$work/step.txt" "$kept"
        echo "ptx, step: $kept is rewritten: look at the diff"
    elif ! diff -U0 "$kept" "$work/step.txt" >"$work/diff"; then
        echo "FAILED ptx, step: kernels cost something else than $kept says; if that is meant, UPDATE=1 make ptx SWEEP=all:"
        cat "$work/diff"
        exit 1
    fi
    echo "ok     ptx, step of $1, $2 samples: at best $(at_best A100) on an A100, $(at_best H100) on an H100," \
        "$(at_best H200) on an H200, products included"
}

compare sana-1600m-1024 32 h200
compare sana-1600m-1024 16 a100
compare lumina-next-2b-1024 4 h200
