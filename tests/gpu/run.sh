#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BIN PLUGIN CHECK_KERNELS - checks the CUDA backend on a real GPU, then measures its speed
#
# Needs no make and no compiler: what it runs may have been built elsewhere.
# Each part runs whatever became of the others, with a limit of time, and a table
# says which part did what.  The parts that say most come first, so that they are
# there when the eight minutes are over.  Everything that was printed, and what the
# machine is, is in one file, which is named at the end.  Ctrl-C ends the part that
# runs; the file is written.  Without a GPU it says so and exits with 0.
#
# Exit codes: 0 all parts that ran passed; 1 a part failed, or nothing can run on
# this GPU; 64 wrong arguments or variables; 130 interrupted.
#
#   PARTS='golden step' tests/gpu/run.sh ...   only parts whose names begin so
#   LIMIT=1200          tests/gpu/run.sh ...   seconds for all of it
#   REPORT=FILE         tests/gpu/run.sh ...   the file; default: check-gpu.txt beside BIN
#   CONFIG, CASES, BATCHES, STEPS              other models to time than those of models.json
set -u

# A spec of four steps into $work.NAME; $more: keys of it.
spec() {
    cat >"$work.$1.json" <<JSON
{"schema":1,"train":{"model":{"preset":"tiny"},"data":{"path":"templates/data/tango-icons",
 "caption_words":4,"caption_channels":32},"batch":{"global":3,"micro":${micro:-2}},"steps":4,"ema":0.9,
 "optimizer":{"lr":1e-3},"precision":"bf16",${more:-}"sample":{"after":false}},
 "checkpoint":{"every":{"steps":2},"dir":"$work.$1"}}
JSON
}

# That run on the GPU.
trained() {
    spec "$1"
    "$bin/jobctl-train" train --backend cuda --spec "$work.$1.json"
}

# Two such runs ended with the same weights and the same state.
alike() {
    for f in model optimizer; do
        cmp "$work.$1/step-00000004/$f.safetensors" "$work.$2/step-00000004/$f.safetensors" ||
            return
    done
    echo "the same bits"
}

# The same from its middle, with the algorithms that were chosen before it.
resumed() {
    work=$out/run
    trained whole || return
    mkdir -p "$work.half"
    cp -r "$work.whole/step-00000002" "$work.half/" || return
    for f in "$work.whole"/products.*; do
        [ ! -f "$f" ] || cp "$f" "$work.half/"
    done
    trained half && alike whole half
}

# The same call by call, and as recorded steps.
recorded() {
    work=$out/graph
    JOBCTL_CUDA_WAYS='' trained plain || return
    JOBCTL_CUDA_WAYS=graph trained graph >"$out/graph.told" 2>&1
    code=$?
    cat "$out/graph.told"
    [ $code -eq 0 ] || return $code
    ! grep 'could not be recorded' "$out/graph.told" || return 1
    alike plain graph
}

# Ranks 0 and 1 of the run NAME, on two GPUs; the other one's words go to a file, and are shown if one fails.
two() {
    spec "$1"
    mkdir -p "$work.$1.meet"
    export WORLD_SIZE=2 JOBCTL_NONCE="$work.$1" JOBCTL_RENDEZVOUS="$work.$1.meet"
    RANK=1 LOCAL_RANK=1 "$bin/jobctl-train" train --backend cuda --spec "$work.$1.json" >"$work.$1.other" 2>&1 &
    RANK=0 LOCAL_RANK=0 "$bin/jobctl-train" train --backend cuda --spec "$work.$1.json"
    code=$?
    wait $! && [ $code -eq 0 ] && return
    cat "$work.$1.other"
    return 1
}

# NCCL adds right, between two GPUs.
summed() {
    "$bin/jobctl-train" sum --gpus "$1" >"$out/summed" 2>&1
    code=$?
    cat "$out/summed"
    [ $code -ne 0 ] || grep -q '"outcome":"ok"' "$out/summed" || return 1
    return $code
}

# Two GPUs, connected by NCCL, end with the bits of one, however they share the work.
together() {
    work=$out/two micro=1 more='"reproducible":true,'
    trained one || return
    for how in ddp zero1 fsdp; do
        more="\"reproducible\":true,\"parallel\":\"$how\","
        (two $how) && alike one $how || return
    done
}

# sized NAME WHO COMMAND... - runs it on the case of that name with the most samples of $BATCHES that
# fit into memory (exit 72, or what PyTorch says); @ in the command stands for the file. What it
# took goes to $out/ms/NAME.WHO as "batch ms".
sized() {
    name=$1 who=$2 last=@
    shift 2
    for batch in $BATCHES; do
        file=$out/$name.$batch.json
        sed "s/\"batch\": [0-9]*/\"batch\": $batch/" "$CONFIG" >"$file"
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
    [ $code -eq 0 ] || return $code
    ms=$(grep -oE -m 1 '[0-9.]+ ms' "$out/sized" | cut -d' ' -f1)
    mfu=$(grep -iE 'mfu' "$out/sized" | grep -oE -m 1 '[0-9.]+ *%' | tr -d ' %')
    [ -n "$ms" ] || return 1
    mkdir -p "$out/ms"
    echo "$batch $ms" >"$out/ms/$name.$who"
    echo "batch $batch: $ms ms a step, MFU ${mfu:-not known: no peak of this GPU in engine/bench/gpu_peak.c}${mfu:+ %}"
}

# profiled NAME FILES - a step of that case by kernel, beside what each must take: FILES-BATCH.txt has the counts.
profiled() {
    name=$1 files=$2
    sized "$name" profile "$bin/jobctl-train" bench --backend cuda --precision bf16 --config @ --case "$name" \
        --steps 2 --warmup 2 --profile >/dev/null || { cat "$out/sized"; return 1; }
    read -r batch ms <"$out/ms/$name.profile"
    counts=$files-$batch.txt
    [ -f "$counts" ] || counts=tests/ptx/counts.txt
    tests/gpu/roofline.sh "$gpu" "$counts" <"$out/sized" >"$out/profile.$name" || return
    echo "$name, $batch samples, $ms ms a step; the longest kernels first"
    cat "$out/profile.$name"
}

# timed ARGUMENTS OF check_kernels - the kernels one by one, beside what each must take
timed() {
    "$@" --time >"$out/timed" || { cat "$out/timed"; return 1; }
    grep -v '^profile' "$out/timed"
    tests/gpu/roofline.sh "$gpu" tests/ptx/counts.txt <"$out/timed"
}

# `timeout` runs programs only: these are this script, called by itself.
case ${1:-} in
--resumed | --recorded | --summed | --together | --sized | --profiled | --timed)
    do=${1#--}
    shift
    "$do" "$@"
    exit
    ;;
esac

# A wrong argument or variable: one sentence, before any time of a GPU is used.
usage() {
    echo "check-gpu: $*" >&2
    exit 64
}

# numbers NAME "VALUES" - whole numbers above 0
numbers() {
    for n in $2; do
        case $n in *[!0-9]* | 0*) usage "$1 is \"$2\"; expected whole numbers above 0" ;; esac
    done
}

[ $# -eq 3 ] || usage "expected BIN PLUGIN CHECK_KERNELS, got $# arguments; \`make check-gpu\` passes them"
export bin=$1
plugin=$2 kernels=$3
export CONFIG="${CONFIG:-tests/gpu/models.json}" BATCHES="${BATCHES:-32 16 8 4}"
cases=${CASES:-sana-1600m-1024 sana-600m-512 sana-1600m-512 lumina-next-2b-1024}
report=${REPORT:-$(dirname "$bin")/check-gpu.txt}
limit_all=${LIMIT:-470}
parts="kernels golden resume recorded two time step profile peer sanitizer"
for p in ${PARTS:-}; do
    case " $parts " in *" $p"*) ;; *) usage "PARTS has \"$p\", which is no part; expected some of: $parts" ;; esac
done
numbers LIMIT "$limit_all"
numbers BATCHES "$BATCHES"
numbers STEPS "${STEPS:-}"
case ${GPUS:-} in *[!0-9]*) usage "GPUS is \"$GPUS\"; expected the number of GPUs" ;; esac
[ -d tests/golden ] || usage "no tests/golden in $PWD; run it in the root of the repository"
for p in jobctl-train jobctl-verify; do
    [ -x "$bin/$p" ] || usage "no program $bin/$p; build it with \`make\`"
done
[ -x "$kernels" ] || usage "no program $kernels; build it with \`make check-gpu\`"
[ -r "$CONFIG" ] || usage "the file $CONFIG cannot be read; CONFIG names the models to time"
for name in $cases; do
    grep -q "^ *\"$name\":" "$CONFIG" || usage "$CONFIG has no model $name; name its models in CASES"
done
if [ ! -f "$plugin" ]; then
    if [ -e /dev/nvidiactl ]; then
        echo "check-gpu: FAILED: there is a GPU, but no $plugin; install nvcc (docs/INSTALL.md) and run make again" >&2
        exit 1
    fi
    echo "no CUDA device: skipped"
    exit 0
fi
plugin=$(realpath "$plugin")
export JOBCTL_CUDA="$plugin"
export out
out=$(mktemp -d "${TMPDIR:-/tmp}/check-gpu.XXXXXX" 2>/dev/null) ||
    usage "no directory can be made in ${TMPDIR:-/tmp}; name another one in TMPDIR"
running='' interrupted=''
trap 'rm -rf "$out"' EXIT
trap 'interrupted=1; [ -z "$running" ] || kill "$running" 2>/dev/null' INT TERM
free=$(df -Pk "$out" | awk 'NR == 2 { print $4 }')
[ "${free:-102400}" -ge 102400 ] ||
    usage "${TMPDIR:-/tmp} has $((free / 1024)) MiB free; expected 100: name another directory in TMPDIR"
# Checked now, since the report is written after eight minutes. An older report stays until then.
(: >>"$report") 2>/dev/null || usage "the report $report cannot be written; name another file in REPORT"
begin=$(date +%s)
bad=0
goldens=$(ls tests/golden/sana/tiny-*[a-z].json tests/golden/lora/*.json)
lumina=$(ls tests/golden/lumina/v*.json)
encoders="$(ls tests/golden/gemma2/*.json) tests/golden/vae/small-pair.json tests/golden/vae/real-stages.json"

# PyTorch brings cuBLASLt where the toolkit is not installed. The plugin has the name of its toolkit's.
lt=$(grep -aom 1 'libcublasLt[.]so[.][0-9][0-9]*' "$plugin" | head -n 1)
lt=${lt:-libcublasLt.so}
if [ -z "${JOBCTL_CUBLASLT:-}" ] && [ ! -e /usr/local/cuda/lib64/$lt ] &&
    ! { ldconfig -p 2>/dev/null || /sbin/ldconfig -p; } | grep -q $lt; then
    found=$(find / -xdev -name $lt 2>/dev/null | head -n 1)
    [ -z "$found" ] || export JOBCTL_CUBLASLT="$found"
fi

# The first look: is there a device at all?
timeout -k 5 120 "$kernels" "$plugin" fp32 >"$out/first" 2>&1
code=$?
why=$(sed -n 's/^check_kernels: //p' "$out/first" | tail -n 1)
if [ $code -eq 67 ]; then
    [ -s "$report" ] || rm -f "$report"
    echo "no CUDA device: skipped${why:+ ($why)}"
    exit 0
fi
if [ $code -eq 68 ]; then
    [ -s "$report" ] || rm -f "$report"
    echo "check-gpu: FAILED: $why" >&2
    exit 1
fi
head -n 1 "$out/first"
gpu=$(sed -n '1s/, cuda-[a-z0-9]*$//p' "$out/first")
export gpu
[ $code -ne 124 ] || echo "the first kernels did not end within 120 s: a GPU newer than the plugin compiles them first"
command -v nvidia-smi >/dev/null &&
    nvidia-smi --query-gpu=name,driver_version,memory.total,power.limit,clocks.max.sm --format=csv,noheader

# A GPU without bf16 (a T4) has kernels and golden cases in fp32 to show: no step is timed there.
precisions="fp32 bf16"
timeout -k 5 120 "$bin/jobctl-verify" --backend cuda --precision bf16 tests/golden/sana/tiny-base.json \
    >"$out/first" 2>&1
if [ $? -eq 64 ]; then
    tail -n 1 "$out/first"
    precisions=fp32 PARTS=${PARTS:-kernels golden}
fi

# As many as a program sees.
gpus=${GPUS:-$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')} pair=0,1
if [ -n "${CUDA_VISIBLE_DEVICES:-}" ]; then
    gpus=$(echo "$CUDA_VISIBLE_DEVICES" | tr ',' '\n' | grep -c .)
    pair=$(echo "$CUDA_VISIBLE_DEVICES" | cut -d, -f1,2)
fi

wanted() {
    [ -z "${PARTS:-}" ] && return 0
    for p in $PARTS; do
        case $1 in "$p"*) return 0 ;; esac
    done
    return 1
}

row() {
    printf '%-36s %-8s %5s  %s\n' "$1" "$2" "$3" "$4" >>"$out/table"
    tail -n 1 "$out/table"
}

# part NAME SECONDS COMMAND... - the last line of what it says goes into the table, or the first
# that tells of a failure. What belongs to others (a peer, a tool) and does not end in time is no
# failure of ours: with OTHERS=1 its row says so, and nothing more.
part() {
    name=$1 limit=$2
    shift 2
    wanted "$name" || return 0
    file=$out/part.$(echo "$name" | tr ' ,' '__')
    from=$(date +%s)
    left=$((limit_all - from + begin))
    if [ -n "$interrupted" ] || [ $left -lt 5 ]; then
        why="the $limit_all s of LIMIT are over"
        [ -z "$interrupted" ] || why=interrupted
        row "$name" "not run" - "$why; alone: PARTS='$(echo "$name" | cut -d, -f1 | cut -d' ' -f1)' make check-gpu"
        return 1
    fi
    [ "$limit" -lt $left ] || limit=$left
    timeout -k 5 "$limit" "$@" >"$file" 2>&1 & # in the background, so that a signal ends the wait
    running=$!
    wait $running
    code=$?
    running=
    took=$(($(date +%s) - from))
    word=FAILED
    if [ -n "$interrupted" ]; then
        row "$name" "not done" "$took s" "interrupted: $(tail -n 1 "$file")"
        return 1
    fi
    if [ $code -eq 0 ]; then
        row "$name" ok "$took s" "$(tail -n 1 "$file")"
        return 0
    fi
    if [ $code -eq 124 ] || [ $code -eq 137 ]; then
        [ -z "${OTHERS:-}" ] || word="not done"
        row "$name" "$word" "$took s" "not done after $limit s: $(tail -n 1 "$file")"
    else
        [ -z "${PEER:-}" ] || word="no time"
        why=$(grep -m 1 -E 'FAILED|ERROR|[Ee]rror|failed' "$file" || tail -n 1 "$file")
        row "$name" "$word" "$took s" "exit $code: $why"
    fi
    [ "$word" != FAILED ] || bad=1
    return $code
}

# ours CASE SUFFIX - a step of ours; the suffix tells of the batch or the way
ours() {
    part "step, $1${2:+, $2}" 110 "$0" --sized "$1" "ours${2:+.$2}" "$bin/jobctl-train" bench \
        --backend cuda --precision bf16 --config @ --case "$1" --steps "${STEPS:-10}"
}

# The peak that our own MFU is a share of, as an option of the peer.
peak() {
    sed -n 's/^MFU .* of \([0-9]*\) TFLOP.*/--peak \1/p' "$out"/part.step* 2>/dev/null | head -n 1
}

# peer CASE HOW - a step of PyTorch, eager or compiled; and ours, if it had another batch
peer() {
    how=
    [ "$2" = eager ] || how=--compile
    # shellcheck disable=SC2086
    OTHERS=1 PEER=1 part "peer, $1, $2" 150 "$0" --sized "$1" "$2" python3 \
        tests/bench/sana_torch.py bench --device cuda --bf16 $how --config @ --case "$1" \
        --steps "${STEPS:-10}" --warmup 3 $(peak) || return 0
    batch=$(cut -d' ' -f1 "$out/ms/$1.$2" 2>/dev/null) || return 0
    if [ "$batch" != "$(cut -d' ' -f1 "$out/ms/$1.ours" 2>/dev/null)" ] &&
        [ ! -f "$out/ms/$1.ours.batch-$batch" ]; then
        BATCHES=$batch ours "$1" "batch-$batch"
    fi
}

# compared CASE HOW - one line: how many times as fast as that peer at its batch
compared() {
    [ -f "$out/ms/$1.$2" ] || return 0
    read -r batch theirs <"$out/ms/$1.$2"
    for f in "$out/ms/$1.ours" "$out/ms/$1.ours.batch-$batch"; do
        [ -f "$f" ] || continue
        read -r same ms <"$f"
        [ "$same" = "$batch" ] || continue
        echo "$1, batch $batch: $ms ms, PyTorch $2 $theirs ms:" \
            "$(awk "BEGIN { printf \"%.2f\", $theirs / $ms }") times as fast" \
            "(target $([ "$2" = eager ] && echo 1.5 || echo 1.15))"
    done
}

sanitized() {
    if [ -n "$sanitizer" ]; then
        OTHERS=1 part "sanitizer, $1" "$2" "$sanitizer" --error-exitcode 9 --tool "$1" "$kernels" \
            "$plugin" bf16
    elif wanted sanitizer; then
        row "sanitizer, $1" "not run" - "compute-sanitizer is not installed"
    fi
}

# What the machine is, for those who read the report elsewhere; no name of a host or user.
machine() {
    date -u '+%F %H:%M UTC'
    "$bin/jobctl-train" --version 2>/dev/null | head -n 1
    git log -1 --format='commit %h of %cs' 2>/dev/null &&
        echo "$(git status --porcelain -uno | wc -l) tracked files differ from the commit"
    uname -srm
    sed -n 's/^PRETTY_NAME=//p' /etc/os-release
    grep -m 1 'model name' /proc/cpuinfo
    echo "$(nproc) processors, $(sed -n 's/^MemTotal: *//p' /proc/meminfo)"
    nvcc --version 2>/dev/null | tail -n 1
    nvidia-smi 2>/dev/null | sed '/Processes:/,$d' # their paths name users
    nvidia-smi --query-compute-apps=pid --format=csv,noheader 2>/dev/null |
        awk 'END { print NR + 0 " other processes on the GPUs" }'
    nvidia-smi topo -m 2>/dev/null
    python3 -c 'import torch; print("torch", torch.__version__, "CUDA", torch.version.cuda)' 2>/dev/null
    env | grep -E '^(CUDA|CUBLAS|CUBLASLT|NCCL|JOBCTL)_|^NVIDIA_(TF32_OVERRIDE|VISIBLE_DEVICES)=' |
        grep -ivE '^[^=]*(TOKEN|KEY|SECRET|PASS|CREDENTIAL|AUTH|NONCE)' | sort
}

# as_pattern TEXT - for sed, between #
as_pattern() { printf '%s' "$1" | sed 's/[][\\.*^$#]/\\&/g'; }

# Standard input without this folder, home directories, and the names and addresses of hosts that NCCL prints.
anonymous() {
    sed -E 's#/home/[^/ :"]+#/home/USER#g; s#\b[0-9]+(\.[0-9]+){3}(<[0-9]+>|:[0-9])#ADDRESS\2#g' |
        sed "s#$(as_pattern "$(uname -n)"):\\([0-9][0-9]*:[0-9]\\)#HOST:\\1#g"
}

# Standard input with this folder as ".", the folder of temporary files as "TMP", and $HOME as "~".
relative() {
    home=${HOME:-/}
    [ "$home" != / ] || home=$PWD
    sed "s#$(as_pattern "$PWD")#.#g; s#$(as_pattern "$out")#TMP#g; s#$(as_pattern "$home")\\(/\\|\$\\)#~\\1#g"
}

# Everything in one file: the machine, what was printed here, and what each part printed.
write_report() {
    {
        machine
        echo
        cat "$out/table"
        echo
        cat "$out/summary"
        for f in "$out"/part.*; do
            [ ! -f "$f" ] || { printf '\n=== %s\n' "${f##*/part.}"; cut -c1-400 "$f"; }
        done
    } | relative | anonymous >"$report" && [ -s "$report" ] || return
    echo "report: $report; please send it as docs/MAINTAINING.md says"
}

has_torch() {
    python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null
}

for precision in $precisions; do
    part "kernels, $precision" 60 "$kernels" "$plugin" $precision
    part "kernels, $precision, plain" 60 env JOBCTL_CUDA_WAYS= "$kernels" "$plugin" $precision
    # shellcheck disable=SC2086
    part "golden cases, $precision" 60 "$bin/jobctl-verify" --backend cuda \
        --precision $precision $goldens
    # shellcheck disable=SC2086
    part "golden cases of Lumina, $precision" 60 "$bin/jobctl-verify" --backend cuda \
        --precision $precision $lumina
    # shellcheck disable=SC2086
    part "golden cases of encoders, $precision" 60 "$bin/jobctl-verify" --backend cuda \
        --precision $precision $encoders
    # shellcheck disable=SC2086
    part "golden cases, $precision, plain" 60 env JOBCTL_CUDA_WAYS= "$bin/jobctl-verify" \
        --backend cuda --precision $precision $goldens
done
part "resume, bf16" 60 "$0" --resumed
part "recorded steps, bf16" 60 "$0" --recorded
if [ "$gpus" -gt 1 ]; then
    part "two GPUs, NCCL's sums" 90 "$0" --summed "$pair"
    part "two GPUs, bf16" 120 "$0" --together
elif wanted two; then
    row "two GPUs" "not run" - "this process sees $gpus GPU"
fi

part "time of kernels, bf16" 60 "$0" --timed "$kernels" "$plugin" bf16
for name in $cases; do
    ours "$name" ''
done
first=${cases%% *}
for name in "$first" "${cases##* }"; do
    part "profile of a step, $name" 60 "$0" --profiled "$name" "tests/ptx/step-$name"
    [ "$first" != "${cases##* }" ] || break
done
JOBCTL_CUDA_WAYS='' ours "$first" plain
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
if ! wanted peer; then
    peers=
elif has_torch; then
    peers=$(echo "$cases" | cut -d' ' -f1,2)
else
    peers=
    row "peer" "not run" - "python3 has no torch that sees a GPU"
fi
for name in $peers; do
    peer "$name" eager
done
sanitized memcheck 45
for name in $peers; do
    peer "$name" compiled
done
sanitized racecheck 75
sanitized synccheck 75

summary() {
    [ ! -f "$out/profile.$first" ] || head -n 16 "$out/profile.$first"
    for name in $peers; do
        compared "$name" eager
        compared "$name" compiled
    done
    grep -h 'cuBLASLt has no algorithm\|could not be recorded' "$out"/* 2>/dev/null | sort -u | head -n 20
    ! grep -q MFU "$out/table" ||
        echo "MFU: three times the useful work of a forward pass, divided by the peak of this GPU (gpu_peak.c)"
    echo "$(($(date +%s) - begin)) s in all"
    failed=$(grep -c '^.\{37\}FAILED' "$out/table")
    left=$(grep -c '^.\{37\}not ' "$out/table")
    left=$([ "$left" -eq 0 ] || echo ", $left not run or not done")
    if [ "$failed" -ne 0 ]; then
        echo "check-gpu: FAILED: $failed of $(grep -c . "$out/table") parts$left"
    elif grep -q '^.\{37\}ok' "$out/table"; then
        echo "check-gpu: all passed$left"
    else
        echo "check-gpu: FAILED: no part ran$left"
    fi
}
touch "$out/table"
grep -q '^.\{37\}ok' "$out/table" || bad=1
summary >"$out/summary"
echo
cat "$out/summary"
write_report || {
    echo "check-gpu: the report $report could not be written; is the disk full?" >&2
    bad=1
}
[ -z "$interrupted" ] || exit 130
exit $bad
