#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# step.sh PLUGIN BIN VERSION - each kernel of training steps and of autoencoders in real sizes, counted, against step-*.txt
#
# The work is that of `jobctl-train bench --profile` and `vae bench --profile`: arrays are never touched but by the few
# blocks of each kernel that run. UPDATE=1 rewrites the files. Counts are those of one VERSION of nvcc; with another one
# nothing is compared.
set -eu
plugin=$(realpath "$1") bin=$2 version=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

heading() { # WHAT GPU
    cat <<END
What each kernel does for $1, bf16, with the shared memory of the GPU "$2"; products by
cuBLASLt apart. Counted in the PTX of nvcc $version for compute capability 8.0, in two blocks of each launch, and multiplied
by all blocks. Numbers are those of a call; the columns are those of counts.txt. UPDATE=1 make ptx SWEEP=all rewrites it.

END
    sed -n '/^kernel  /p' tests/ptx/counts.txt
}

at_best() { # GPU
    tests/gpu/roofline.sh "$1" "$work/step.txt" <"$work/profile" | sed -n 's/^\([0-9.]*\) ms at best of .*/\1 ms/p'
}

# counted WHAT GPU COMMAND... - into $work/step.txt, and what the command prints into $work/profile
counted() {
    heading "$1" "$2" >"$work/step.txt"
    gpu=$2
    shift 2
    JOBCTL_CUDA="$plugin" JOBCTL_CUBLASLT="$plugin" JOBCTL_CUDA_WAYS="tensor bgrad" CUDA_CPU_GPU="$gpu" CUDA_CPU_BARE=1 \
        CUDA_CPU_LAZY=1 PTX_SAMPLE=2 PTX_COUNTS="$work/step.txt" PTX_COUNTS_TIMED=1 \
        "$@" --backend cuda --precision bf16 --profile >"$work/profile" 2>&1 ||
        { echo "FAILED ptx, $*:"; cat "$work/profile"; exit 1; }
}

# compare NAME WHAT GPU COMMAND... - what it does, with the shared memory of that GPU, against step-NAME.txt
compare() {
    kept=tests/ptx/step-$1.txt what=$2
    if [ -z "${UPDATE:-}" ] && ! grep -q "nvcc $version " "$kept"; then
        echo "ptx, step: not compared: $kept is of another nvcc than $version"
        return
    fi
    shift
    counted "$@"
    if [ -n "${UPDATE:-}" ]; then
        cp "$work/step.txt" "$kept"
        echo "ptx, step: $kept is rewritten: look at the diff"
    elif ! diff -U0 "$kept" "$work/step.txt" >"$work/diff"; then
        echo "FAILED ptx, step: kernels cost something else than $kept says; if that is meant, UPDATE=1 make ptx SWEEP=all:"
        cat "$work/diff"
        exit 1
    fi
    echo "ok     ptx, $what: at best $(at_best A100) on an A100, $(at_best H100) on an H100, $(at_best H200) on an H200"
}

train() { # MODEL SAMPLES GPU
    sed "s/\"batch\": [0-9]*/\"batch\": $2/" tests/gpu/models.json >"$work/models.json"
    compare "$1-$2" "a step of $1 with $2 samples" "$3" "$bin/jobctl-train" bench --config "$work/models.json" \
        --case "$1" --steps 1 --warmup 0
}

picture() { # HALF
    compare "dcae-$1-1024" "a picture of 1024 px in DC-AE, to $1" h200 "$bin/jobctl-train" vae bench --half "$1" --size 1024 --runs 1
}

train sana-1600m-1024 32 h200
train sana-1600m-1024 16 a100
train lumina-next-2b-1024 4 h200
picture encode
picture decode
