#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh WHICH BIN PLUGIN CHECK_KERNELS TEST_MEMORY NCCL - checks that faults planted into the kernels are found
#
# PLUGIN was built from the kernels with all faults in them (plant.py), of which $CUDA_CPU_PLANT turns one on.
# WHICH: all, a number, a range (40-60), or ten: another ten with each commit.  Without a fault nothing may be found.
set -u
here=$(dirname "$0")
which=$1 plugin=$(realpath "$3") kernels=$4
export JOBCTL_CUBLASLT="$plugin" OMP_NUM_THREADS=1 CUDA_CPU_LAZY=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 "$here/plant.py" --list "$here/faults.txt" kernels >"$work/list" || exit 1
count=$(wc -l <"$work/list")
first=$((16#$(git rev-parse HEAD 2>/dev/null | cut -c1-6 | grep . || echo 0) % count))

wanted() { # NUMBER
    case $which in
    all) true ;;
    ten) [ $((($1 - 1 - first + count) % count)) -lt 10 ] ;;
    *) [ "$1" -ge "${which%-*}" ] && [ "$1" -le "${which#*-}" ] ;;
    esac
}

# shellcheck disable=SC2086
trial() { # NUMBER HOW
    export CUDA_CPU_PLANT=$1
    if [ "${2%% *}" = parts ]; then
        PARTS=${2#parts } "$here/../run.sh" "${rest[@]}"
        return
    fi
    if [ "${2%% *}" = e2e ]; then
        CUDA_CPU_PLUGIN=$plugin TEST_STRICT=1 E2E_LANES=1 tests/run_e2e.sh "${rest[0]}" "tests/e2e/${2#e2e }.sh"
        return
    fi
    if [ "${2%% *}" = huge ]; then
        CUDA_CPU_EDGES=1 CUDA_CPU_GPU=h200 "$kernels" "$plugin" bf16 --huge "${2#huge }"
        return
    fi
    settings=${2% * *} test=${2##* } precision=${2% *}
    [ "$settings" != "$2" ] || settings=
    env $settings "$kernels" "$plugin" "${precision##* }" --only "$test"
}

# The tests of HOW, separated by ";", until one fails; 0: none does. A test that does not exist has found nothing.
found() { # NUMBER HOW
    local IFS=';' how code
    for how in $2; do
        (unset IFS; trial "$1" "$how") >"$work/log" 2>&1 && continue
        code=$?
        [ $code -ne 2 ] || { echo "FAILED there is no test for $how"; exit 1; }
        return $code
    done
}

shift
rest=("$@")
bad=0 tried=0
while IFS=$'\t' read -r number place how says; do
    wanted "$number" || continue
    tried=$((tried + 1))
    found "$number" "$how" && code=0 || code=$?
    if [ $code -eq 0 ]; then
        echo "FAILED fault $number at $place ($how) was not found"
        bad=1
    elif [ -n "$says" ] && ! grep -qE "$says" "$work/log"; then
        echo "FAILED fault $number at $place ($how) ended with $code, but nothing says \"$says\":"
        head -n 20 "$work/log"
        bad=1
    fi
done <"$work/list"
while IFS= read -r how; do
    trial 0 "$how" >"$work/log" 2>&1 && continue
    echo "FAILED without a fault ($how):"
    cat "$work/log"
    bad=1
done < <(awk -F'\t' -v w="$which" 'w == "all" && $3 !~ /^(parts|e2e)/ { gsub(";", "\n", $3); print $3 }' "$work/list" | sort -u)
[ $tried -gt 0 ] || bad=1
[ $bad -eq 0 ] && echo "ok     $tried of $count planted faults: each was found"
exit $bad
