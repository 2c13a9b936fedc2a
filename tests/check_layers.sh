#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_layers.sh - a folder may include only what is below it
#
# Each line: folder, then the prefixes its #include "..." may start with.
set -eu
bad=0
while read -r dir allowed; do
    [ -d "$dir" ] || continue
    for inc in $(grep -rhoE '^#include "[^"]+"' "$dir" | cut -d'"' -f2 | sort -u); do
        hit=
        for p in $allowed; do
            case $inc in $p*) hit=1 ;; esac
        done
        [ -n "$hit" ] || { echo "$dir/ may not include $inc" >&2; bad=1; }
    done
done <<'RULES'
kernels     kernels/
engine      kernels/ engine/
agent       agent/ engine/err.h engine/progress.h engine/exit_code.h engine/train_spec.h engine/flight.h engine/snapshot.h engine/manifest.h engine/scratch.h engine/cgroup.h
db          db/ engine/err.h
controller  controller/ db/ agent/ engine/err.h engine/exit_code.h engine/flight.h engine/train_spec.h engine/manifest.h
RULES
# What a GPU needs is known to these alone.  All that decides for many ranks is built without it, and tested
# without it.  A header may not be among them: so nobody gets it through another.
while read -r header allowed; do
    for f in $(grep -rlE "^#include \"$header\"" engine agent controller db); do
        case " $allowed " in
            *" $f "*) ;;
            *) echo "$f may not include $header" >&2; bad=1 ;;
        esac
    done
done <<'RULES'
kernels/cuda.h  engine/backend.c engine/cmd_peers.c engine/dist_nccl.c engine/graph.c engine/train_snapshot.c
engine/nccl.h   engine/nccl.c engine/dist_nccl.c
RULES
for f in $(grep -rlE '^#include <(cuda|cublas|nccl|nvml)' engine agent controller db); do
    echo "$f may not include a header of CUDA or NCCL: see kernels/cuda.h, engine/nccl.h" >&2; bad=1
done
# One SPDX line per source file.
for f in $(find controller agent engine kernels db tests deploy \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cc' -o -name '*.sh' -o -name '*.py' \)); do
    head -n 3 "$f" | grep -q 'SPDX-License-Identifier:' || { echo "$f has no SPDX line" >&2; bad=1; }
done
exit $bad
