#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# resources.sh LOG [--table] - the resources of a multiprocessor that each CUDA kernel uses, and whether they are
# permitted
#
# LOG is what ptxas -v said while the plugin was built.  A kernel fails that
# spills registers to memory, that leaves room for less than two blocks of 256
# threads (128 registers), or that has more shared memory of fixed size than any
# GPU gives without asking (48 KB).  Attention (flash.cu) keeps its sums in
# registers: eight warps of it fill a multiprocessor (255 registers), and what it
# waits for is copied meanwhile.  Causal attention keeps sums of wide heads (168:
# three blocks of 128 threads).  The bounds are what nvcc 13 needs; an older one
# (the first line of LOG says which) may spill 32 bytes, stores and loads together.
# One line; with --table one per kernel.
set -u
log=$1
show=${2:+1}
if command -v c++filt >/dev/null; then c++filt -p <"$log"; else cat "$log"; fi | awk -v show="$show" '
    NR == 1 && /^nvcc [0-9]/ && $2 < 13 { slack = 32 }
    /Compiling entry function/ {
        split($0, q, "\047")
        full = q[2]
        arch = q[4]
        kernels++
    }
    /spill stores/ { spill = $5 + $9 }
    /ptxas info *: Used [0-9]+ registers/ {
        regs = $5
        smem = 0
        for (i = 1; i < NF; i++)
            if ($(i + 1) == "bytes" && $(i + 2) ~ /^smem/)
                smem = $i
        if (show)
            printf "%-6s %4d registers %6d shared %4d spilled  %s\n", arch, regs, smem, spill, full
        allowed = full ~ /^(void )?flash_/ ? 255 : full ~ /^(void )?causal_/ ? 168 : 128
        few += spill > 0 && spill <= slack
        if (spill > slack || regs > allowed || smem > 49152) {
            printf "FAILED %s on %s: %d registers, %d bytes of shared memory, %d bytes spilled; " \
                   "allowed are %d, 49152 and %s\n", full, arch, regs, smem, spill, allowed, slack ? slack : "none"
            bad = 1
        }
        most = regs > most ? regs : most
        wide = smem > wide ? smem : wide
    }
    END {
        if (!kernels) {
            print "FAILED no kernel is in the log: was it built with ptxas -v?"
            exit 1
        }
        spilled = few ? few " of them spill up to 32 bytes" : "nothing spilled"
        printf "  kernels: %d for all targets, at most %d registers and %.1f KB shared, %s\n", \
               kernels, most, wide / 1024, bad ? "some beyond the bounds" : spilled
        exit bad
    }'
