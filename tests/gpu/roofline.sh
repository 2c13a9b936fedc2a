#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# roofline.sh GPU COUNTS <PROFILE - each kernel's time compared with its theoretical minimum
#
# PROFILE has the lines "profile" of `jobctl-train bench --profile` or `check_kernels --time`. COUNTS is
# tests/ptx/counts.txt or step.txt: per kernel and grid the bounds of a call, on A100, H100 and H200. Products are
# compared with the peak of the tensor cores. A kernel that COUNTS does not have, or the toolkit cannot name, has no
# bound; nor has any on other GPUs.
set -eu
gpu=$1 counts=$2
case $gpu in
*PCIe* | *NVL*) column=0 peak=0 ;; # of other clocks and memory
*A100*) column=1 peak=312 ;;
*GH200* | *H200*) column=3 peak=989 ;;
*H100*) column=2 peak=989 ;;
*) column=0 peak=0 ;;
esac
awk -v column=$column -v peak=$peak -v gpu="$gpu" '
    # Bounds are the only numbers of four digits behind the point; the words behind one say what takes that long. The
    # bound of a kernel and grid with several rows is their mean.
    function read_bounds(  i, n, key) {
        key = $1 " " $2
        calls[key] += $5
        for (i = 6; i <= NF; i++)
            if ($i ~ /^[0-9]+\.[0-9][0-9][0-9][0-9]$/ && ++n == column)
                sum[key] += $5 * $i
            else if (n == column && calls[key] == $5)
                by[key] = by[key] (by[key] ? " " : "") $i
    }
    FNR == NR { if ($2 ~ /^[0-9]+,[0-9]+,[0-9]+$/) read_bounds(); next }
    $1 != "profile" { next }
    !head++ {
        printf "%-20s %-44s %-13s %6s %10s %10s %6s  %s\n", "operation", "kernel, or product m x n x k", "grid", "calls",
            "ms", "at best", "%", "bound by"
    }
    {
        best = 0
        why = column ? "not counted" : "-"
        if (split($3, size, "x") == 3 && $4 == "-" && $3 ~ /^[0-9x]+$/) {
            best = column ? 2 * size[1] * size[2] * size[3] / peak * 1e-9 * $5 : 0
            why = column ? "tensor cores" : why
        } else if (column && (($3 " " $4) in sum)) {
            best = $5 * sum[$3 " " $4] / calls[$3 " " $4]
            why = by[$3 " " $4]
        }
        printf "%-20s %-44s %-13s %6d %10.4f %10s %6s  %s\n", $2, $3, $4, $5, $6, best ? sprintf("%.4f", best) : "-",
            (best && $6 > 0) ? sprintf("%.0f", 100 * best / $6) : "-", why
        if (best) {
            ms += $6
            all += best
        } else
            rest += $6
    }
    END {
        if (all)
            printf "%.4f ms at best of %.4f ms: %.0f %%; %.4f ms more without a bound\n", all, ms,
                ms ? 100 * all / ms : 0, rest
        else
            printf "%.4f ms in kernels; no bounds %s\n", rest, column ? "are counted for them" : "for " gpu
    }' "$counts" -
