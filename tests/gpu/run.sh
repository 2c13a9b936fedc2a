#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BIN PLUGIN CHECK_KERNELS - the CUDA backend on a real GPU: right first, then how fast
#
# Needs no make and no compiler: what it runs may have been built elsewhere.
# Each part runs whatever became of the others, with a limit of time; what it
# printed stays in a directory that is named at the end, and a table says which
# part did what.  Exits non-zero if anything failed.  Without a GPU it says so
# and ends well.
#
#   PARTS='golden step' tests/gpu/run.sh ...   only parts whose names begin so
set -u

# A run of four steps, and the same from its middle: the same bits.
resumed() {
    work=$out/run
    for d in whole half; do
        cat >"$work.$d.json" <<JSON
{"schema":1,"train":{"model":{"preset":"tiny"},"data":{"path":"templates/data/tango-icons",
 "caption_words":4,"caption_channels":32},"batch":{"global":3,"micro":2},"steps":4,"ema":0.9,
 "optimizer":{"lr":1e-3},"precision":"bf16","sample":{"after":false}},
 "checkpoint":{"every":{"steps":2},"dir":"$work.$d"}}
JSON
    done
    "$bin/jobctl-train" train --backend cuda --spec "$work.whole.json" || return
    mkdir -p "$work.half" && cp -r "$work.whole/step-00000002" "$work.half/" || return
    "$bin/jobctl-train" train --backend cuda --spec "$work.half.json" || return
    for f in model optimizer; do
        cmp "$work.whole/step-00000004/$f.safetensors" "$work.half/step-00000004/$f.safetensors" ||
            return
    done
    echo "the same bits"
}

# sized CASE COMMAND... - runs it on the case with the most samples of 32, 16, 8, 4 that fit into
# memory (exit 72, or what PyTorch says); @ in the command stands for the file
sized() {
    what=$1 last=@
    shift
    for batch in 32 16 8 4; do
        file=$out/$what.$batch.json
        sed "s/\"batch\": [0-9]*/\"batch\": $batch/" tests/gpu/sana.json >"$file"
        n=$#
        while [ $n -gt 0 ]; do
            word=$1
            shift
            [ "$word" = "$last" ] && word=$file
            set -- "$@" "$word"
            n=$((n - 1))
        done
        last=$file
        "$@" >"$out/sized" 2>&1
        code=$?
        if [ $code -ne 72 ] && ! grep -q 'OutOfMemory\|out of memory' "$out/sized"; then
            break
        fi
    done
    cat "$out/sized"
    echo "batch $batch: $(grep -oE -m 1 '[0-9.]+ ms' "$out/sized" || echo no time) a step" \
        "$(grep -oiE -m 1 'mfu.*|[0-9.]+ ?% of.*' "$out/sized")"
    return $code
}

# `timeout` runs programs only: these two are this script, called by itself.
case ${1:-} in
--resumed | --sized)
    do=${1#--}
    shift
    "$do" "$@"
    exit
    ;;
esac

export bin=$1
plugin=$2 kernels=$3
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
export out
out=$(mktemp -d "${TMPDIR:-/tmp}/check-gpu.XXXXXX")
begin=$(date +%s)
bad=0
cases=$(ls tests/golden/sana/tiny-*[a-z].json)

# The first look: is there a device at all?
"$kernels" "$plugin" fp32 >"$out/first" 2>&1
code=$?
if [ $code -eq 67 ]; then
    echo "no CUDA device: skipped"
    rm -r "$out"
    exit 0
fi
head -n 1 "$out/first"
command -v nvidia-smi >/dev/null &&
    nvidia-smi --query-gpu=name,driver_version,memory.total,power.limit --format=csv,noheader

wanted() {
    [ -z "${PARTS:-}" ] && return 0
    for p in $PARTS; do
        case $1 in "$p"*) return 0 ;; esac
    done
    return 1
}

row() {
    printf '%-34s %-8s %5s  %s\n' "$1" "$2" "$3" "$4" >>"$out/table"
}

# part NAME SECONDS COMMAND... - the last line of what it says goes into the table, or the first
# that tells of a failure
part() {
    name=$1 limit=$2
    shift 2
    wanted "$name" || return 0
    file=$out/$(echo "$name" | tr ' ,' '__')
    from=$(date +%s)
    left=$((470 - from + begin)) # eight minutes for all of it
    if [ $left -lt 5 ]; then
        row "$name" "not run" - "the eight minutes are over"
        return 0
    fi
    [ "$limit" -lt $left ] || limit=$left
    timeout -k 5 "$limit" "$@" >"$file" 2>&1
    code=$?
    took=$(($(date +%s) - from))
    if [ $code -eq 0 ]; then
        row "$name" ok "$took s" "$(tail -n 1 "$file")"
    elif [ $code -eq 124 ] || [ $code -eq 137 ]; then
        row "$name" FAILED "$took s" "not done after $limit s: $(tail -n 1 "$file")"
        bad=1
    else
        why=$(grep -m 1 -E 'FAILED|ERROR|[Ee]rror|failed' "$file" || tail -n 1 "$file")
        row "$name" FAILED "$took s" "exit $code: $why"
        bad=1
    fi
    tail -n 1 "$out/table"
    return $code
}

for precision in fp32 bf16; do
    part "kernels, $precision" 60 "$kernels" "$plugin" $precision
    # shellcheck disable=SC2086
    part "golden cases, $precision" 60 "$bin/jobctl-train" verify --backend cuda \
        --precision $precision $cases
done
part "resume, bf16" 60 "$0" --resumed

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
if [ -n "$sanitizer" ]; then
    for tool in memcheck racecheck synccheck; do
        part "sanitizer, $tool" 75 "$sanitizer" --error-exitcode 9 --tool $tool "$kernels" \
            "$plugin" bf16
    done
else
    row "sanitizer" "not run" - "compute-sanitizer is not installed"
fi

part "time of kernels, bf16" 60 "$kernels" "$plugin" bf16 --time
has_torch() {
    python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null
}
for name in sana-600m-512 sana-1600m-512 sana-1600m-1024; do
    part "step, $name" 110 "$0" --sized "$name" "$bin/jobctl-train" bench --backend cuda \
        --precision bf16 --config @ --case "$name" --steps 10
done
if has_torch; then
    for name in sana-600m-512 sana-1600m-1024; do
        for how in '' --compile; do
            # shellcheck disable=SC2086
            part "peer, $name${how:+, compiled}" 110 "$0" --sized "$name.peer" python3 \
                tests/bench/sana_torch.py bench --device cuda --bf16 $how --config @ \
                --case "$name" --steps 10 --warmup 3
        done
    done
else
    row "peer" "not run" - "python3 has no torch that sees a GPU"
fi

echo
cat "$out/table"
echo
[ -f "$out/time_of_kernels__bf16" ] && cat "$out/time_of_kernels__bf16"
echo "$(($(date +%s) - begin)) s in all; what each part printed is in $out"
[ $bad -eq 0 ] && echo "check-gpu: all passed" || echo "check-gpu: FAILED"
exit $bad
