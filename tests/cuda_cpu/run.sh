#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh BIN PLUGIN CHECK_KERNELS TEST_MEMORY NCCL [WATCHED [all]] - checks the CUDA backend, as far as possible without
# a GPU
#
# PLUGIN is libjobctl_cuda.so built against the stand-in of CUDA beside this
# file: the same sources, run on the CPU.  WATCHED is the same with each access of a kernel to memory
# checked (watch.cc): kernels and golden cases run in it.  Indices, arithmetic, barriers, streams, memory
# and the words for failures are checked; nothing is learned about a GPU.
#
# Parts are functions, LANES (2) of them at once, each told in one piece; PARTS names those that are wanted.
# They share nothing but what `after` says.  With `all`, also a layer of Lumina-Next 2B in its real width.
set -u
. tests/e2e/wait.sh
bin=$1 plugin=$(realpath "$2") kernels=$3 memory=$4
nccl=$(realpath "$5") watched=$(realpath "${6:-$2}")
export JOBCTL_CUDA="$plugin" JOBCTL_CUBLASLT="$plugin" JOBCTL_NCCL="$nccl"
export JOBCTL_CUDA_WAYS= # plain, but where it says otherwise: trying algorithms takes its time here
export OMP_NUM_THREADS=1 CUDA_CPU_LAZY=1
every="tune graph tensor bgrad"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
cases=$(ls tests/golden/sana/tiny-*[a-z].json tests/golden/lora/*.json)
lumina=$(ls tests/golden/lumina/v[1-6]_*.json)
encoders="$(ls tests/golden/gemma2/*.json) tests/golden/vae/small-pair.json tests/golden/vae/tiny-kl.json"

# ok WHAT COMMAND... - one line; the output when it fails
ok() {
    what=$1
    shift
    if "$@" >"$log" 2>&1; then
        echo "ok     $what: $(tail -n 1 "$log")"
    else
        echo "FAILED $what (exit $?)"
        cat "$log"
        bad=1
    fi
}

# ends CODE TEXT COMMAND... - must exit with CODE and say TEXT
ends() {
    want=$1 text=$2
    shift 2
    "$@" >"$log" 2>&1
    code=$?
    if [ $code -eq "$want" ] && grep -q "$text" "$log"; then
        echo "ok     exit $code: $(grep -h "$text" "$log" | tail -n 1)"
    else
        echo "FAILED exit $code where $want was expected, and \"$text\":"
        cat "$log"
        bad=1
    fi
}

# after PART - until it is over; it began before this one, or is made now
after() {
    if [[ " $PARTS " == *[[:space:]]"$1"[[:space:]]* ]]; then
        wait_for 3600 "part $1 is over" test -e "$work/$1.code"
    else
        "$1"
    fi
}

# --- what the kernels compute ----------------------------------------------------------------

# Rows of the table (kernels.h) that no comparison calls, but for its parts that only the CPU has; memory and its sizes
# are no computing.
never_compared() {
    awk '/^struct kern_ops \{/ { on = 1 }
        /\/\* --- / { cpu = /CPU/ }
        on && !cpu && match($0, /\(\*[a-z_]+\)\(/) { print substr($0, RSTART + 2, RLENGTH - 4) }
        /^};/ { on = 0 }' kernels/kernels.h | grep -vxE 'alloc|release|state|free_memory|conv_size|conv_work' |
        while read -r row; do grep -qF -- "k->$row(" tests/gpu/*_cases.h tests/gpu/check_kernels.c || echo "$row"; done
}
all_compared() {
    never=$(never_compared)
    echo "not: ${never:-none}"
    [ -z "$never" ]
}
every_kernel() {
    ok "every kernel is compared with its twin" all_compared
    ok "a comparison finds each wrong, missing and unwritten number" "$kernels" --judge
}

kernels_of() { # PRECISION
    ok "kernels $1" env JOBCTL_CUBLASLT="$watched" "$kernels" "$watched" "$1"
    ok "kernels $1, every way, threads in reverse" env JOBCTL_CUBLASLT="$watched" JOBCTL_CUDA_WAYS="$every" \
        CUDA_CPU_ORDER=reverse CUDA_CPU_GPU=h200 "$kernels" "$watched" "$1"
    ok "kernels $1, arrays aligned to a number only" env JOBCTL_CUBLASLT="$watched" CHECK_KERNELS_SHIFT=1 \
        "$kernels" "$watched" "$1"
    ok "kernels $1, each array in turn aligned to less than the others" env JOBCTL_CUBLASLT="$watched" \
        CHECK_KERNELS_SHIFT=each "$kernels" "$watched" "$1"
    ok "kernels $1, no algorithm in cuBLASLt" env JOBCTL_CUBLASLT="$watched" CUDA_CPU_FAIL=algorithm \
        CUDA_CPU_GPU=a100 "$kernels" "$watched" "$1"
    cp "$log" "$log.plain"
    ok "which is told" grep -c 'cuBLASLt has no algorithm for .*, a product of' "$log.plain"
    ok "kernels $1, cuBLASLt refuses what it offers" env JOBCTL_CUBLASLT="$watched" JOBCTL_CUDA_WAYS=bgrad \
        CUDA_CPU_FAIL=refuse "$kernels" "$watched" "$1" --only linear
    cp "$log" "$log.plain"
    ok "which is told with its status" grep -c 'has no algorithm for linear, a product of .*: status 7' "$log.plain"
    ok "kernels $1, no sums of columns in cuBLASLt" env JOBCTL_CUDA_WAYS=bgrad \
        CUDA_CPU_FAIL=bgrad CUDA_CPU_REPORT=1 "$kernels" "$plugin" "$1"
    cp "$log" "$log.sums"
    ok "which are then made apart" grep 'columns summed 0 times' "$log.sums"
}
kernels_fp32() { kernels_of fp32; }
kernels_bf16() { kernels_of bf16; }

golden_of() { # PRECISION
    # shellcheck disable=SC2086
    ok "golden cases $1, every way" env JOBCTL_CUDA="$watched" JOBCTL_CUBLASLT="$watched" \
        JOBCTL_CUDA_WAYS="$every" CUDA_CPU_REPORT=1 "$bin/jobctl-verify" \
        --backend cuda --precision "$1" $cases
    cp "$log" "$log.sums"
    ok "gradients of biases come with those of weights" \
        grep 'columns summed [1-9]' "$log.sums"
}
golden_fp32() { golden_of fp32; }
golden_bf16() { golden_of bf16; }

# Next-DiT: pictures of several sizes, grouped keys, heads of 72, and steps of training.
lumina_of() { # PRECISION
    # shellcheck disable=SC2086
    ok "golden cases of Lumina $1, every way" env JOBCTL_CUDA_WAYS="$every" "$bin/jobctl-verify" \
        --backend cuda --precision "$1" $lumina
    ok "one with each access watched" env JOBCTL_CUDA="$watched" JOBCTL_CUBLASLT="$watched" JOBCTL_CUDA_WAYS="$every" \
        "$bin/jobctl-verify" --backend cuda --precision "$1" tests/golden/lumina/v3_noqknorm_16ch.json
}
lumina_fp32() { lumina_of fp32; }
lumina_bf16() { lumina_of bf16; }

# A layer of the 2B model: heads of 72, 8 of keys to 32 of queries, captions of 2048 channels.
lumina_2b_of() { # PRECISION
    ok "a layer of Lumina-Next 2B $1, every way" env JOBCTL_CUDA_WAYS="$every" "$bin/jobctl-verify" \
        --backend cuda --precision "$1" tests/golden/lumina/v7_2Bshape_L1_proc.json
}
lumina_2b_fp32() { lumina_2b_of fp32; }
lumina_2b_bf16() { lumina_2b_of bf16; }

# The same bits with recorded steps, although a recording does not make the table of rotations.
lumina_run() {
    for how in plain graph; do
        alter lumina-$how '"preset":"tiny"' '"family":"lumina","preset":"lumina-tiny"'
        ok "a run of Lumina, $how" env JOBCTL_CUDA_WAYS="${how#plain}" "$bin/jobctl-train" train --backend cuda \
            --spec "$work/lumina-$how.json"
    done
    ok "the same bits" cmp "$work"/lumina-{plain,graph}/step-00000004/model.safetensors
}

# Gemma 1 and 2, DC-AE and SDXL's autoencoder, both halves.
encoders_of() { # PRECISION
    # shellcheck disable=SC2086
    ok "golden cases of encoders $1" env CUDA_CPU_GUARD=1 "$bin/jobctl-verify" --backend cuda --precision "$1" \
        $encoders
}
encoders_fp32() { encoders_of fp32; }
encoders_bf16() { encoders_of bf16; }

# A cache has what fp32 has computed, on either device, apart from what bf16 has.
encode_as() { # NAME PRECISION BACKEND
    sed "s/\"precision\":\"fp32\"/\"precision\":\"$2\"/; s/encoded.json.ckpt/$1.ckpt/" "$work/encoded.json" >"$work/$1.json"
    ok "data encoded by $3 in $2" "$bin/jobctl-train" train --backend "$3" --spec "$work/$1.json"
    cp "$log" "$work/$1.log"
}
dirs() { [ "$(find "$work/drawn.encoded" -name 'latents-*' | wc -l) $(find "$work/drawn.encoded" -name 'text-*' | wc -l)" = "$1" ]; }
encoded_again() {
    encode_as by-cpu fp32 cpu
    ok "the CPU takes what fp32 has encoded" not_encoded by-cpu
    encode_as by-bf16 bf16 cuda
    ok "bf16 encodes all" grep '4 of 4 pictures and 6 of 6 captions are to be encoded' "$work/by-bf16.log"
    ok "into directories of its own" dirs "2 2"
    encode_as again bf16 cuda
    ok "and finds it there" not_encoded again
    sed 's/"precision":"fp32"/"precision":"auto"/' "$work/encoded.json" >"$work/unlike.json"
    other=t4 ranks 2 unlike >"$work/unlike.out"
    ok "ranks that encode differently are refused" grep 'this rank encodes in fp32, rank 0 in bf16' "$work/unlike.out"
    for at in "$work"/drawn.encoded/{latents,text}-*; do
        [ "$at" -nt "$work/by-cpu.log" ] || rm -r "$at"
    done
    ok "one of them is left" dirs "1 1"
    ok "whose data is read without a device" "$bin/jobctl-train" verify-data --spec "$work/again.json" \
        --dir "$work/again.ckpt"
}
not_encoded() { ! grep 'to be encoded' "$work/$1.log"; }

# Data encoded on the device before training, and a validation picture decoded there; a latent is the CPU's.
encoded() {
    (
        TOP=$PWD
        . tests/e2e/encoders.sh
        cd "$work" && make_pipe pipe && take_pictures drawn 4 && STEPS=1 encode_spec "$work/encoded.json" "$work/drawn"
    )
    sed -i 's/"steps":1,/"steps":1,"precision":"fp32","validate":{"every":{"steps":1},"steps":1,"prompts":["a house"]},/' \
        "$work/encoded.json"
    ok "a run that encodes its data on the device" env CUDA_CPU_GUARD=1 "$bin/jobctl-train" train --backend cuda \
        --spec "$work/encoded.json"
    cp "$log" "$work/encoded.log"
    ok "with pictures and captions" grep '4 of 4 pictures and 6 of 6 captions are to be encoded' "$work/encoded.log"
    ok "and a validation picture" test -s "$work/encoded.json.ckpt/samples/prompt-01.step-00000001.png"
    encoded_again
    for on in cpu cuda; do
        ok "a latent by $on" "$bin/jobctl-train" vae encode --weights "$work/pipe" --backend $on --precision fp32 \
            --in "$(ls "$work"/drawn/*.png | head -n 1)" --out "$work/latent.$on.npy"
    done
    ok "the same latent" python3 -c 'import array, sys
a, b = (array.array("f", open(p, "rb").read()[128:]) for p in sys.argv[1:])
apart = sum((x - y) ** 2 for x, y in zip(a, b)) ** 0.5 / sum(x * x for x in a) ** 0.5
print(len(a), "numbers, apart by", apart)
sys.exit(not (len(a) == len(b) > 0 and 0 < apart < 1e-5))' "$work/latent.cpu.npy" "$work/latent.cuda.npy"
}

# Arrays of more than 2^32 numbers, of whose launches the first and the last blocks run: no index is an int.
huge_of() { # PRECISION
    ok "kernels $1, arrays of more than 2^32 numbers" env JOBCTL_CUBLASLT="$watched" CUDA_CPU_EDGES=1 \
        CUDA_CPU_GPU=h200 "$kernels" "$watched" "$1" --huge
}
huge_bf16() { huge_of bf16; }
huge_fp32() { huge_of fp32; } # where PARTS says so

memory_fp32() { ok "memory as planned fp32" env PRECISION=fp32 "$memory"; }
memory_bf16() { ok "memory as planned bf16" env PRECISION=bf16 "$memory"; }

# A GPU without bf16 and with less shared memory, such as a T4, computes in fp32.
t4="env CUDA_CPU_GPU=t4 JOBCTL_CUDA_WAYS=$(echo "$every" | tr ' ' ',')"
small_gpu() {
    ok "kernels fp32 on a T4" env JOBCTL_CUBLASLT="$watched" $t4 "$kernels" "$watched" fp32
    ok "a golden case on a T4" $t4 "$bin/jobctl-verify" --backend cuda --precision fp32 \
        tests/golden/sana/tiny-qknorm.json
    ok "no touch of device memory from outside" env CUDA_CPU_GUARD=1 \
        "$bin/jobctl-verify" --backend cuda tests/golden/sana/tiny-qknorm.json
}

# --- runs on one device ----------------------------------------------------------------------

spec() {
    cat >"$work/$1.json" <<JSON
{"schema":1,"train":{"model":{"preset":"tiny"},"data":{"path":"templates/data/tango-icons",
 "caption_words":4,"caption_channels":32},"batch":{"global":3,"micro":2},"steps":4,"ema":0.9,
 "optimizer":{"lr":1e-3},"precision":"fp32","sample":{"after":true,"steps":2,"count":2}},
 "checkpoint":{"every":{"steps":2},"dir":"$work/$1"}}
JSON
}

alter() { # NAME SEARCH REPLACE...: a spec with changes
    spec "$1"
    name=$1
    sed -i "s|\"after\":true|\"after\":false|" "$work/$name.json"
    shift
    while [ $# -gt 1 ]; do
        sed -i "s/$1/$2/" "$work/$name.json"
        shift 2
    done
}

# Pictures and all; again from its middle: the same bits.
whole() {
    spec whole
    spec half
    ok "a run on the device" \
        env CUDA_CPU_GUARD=1 "$bin/jobctl-train" train --backend cuda --spec "$work/whole.json"
    mkdir "$work/half"
    cp -r "$work/whole/step-00000002" "$work/half/" || bad=1
    ok "the same from its middle" "$bin/jobctl-train" train --backend cuda --spec "$work/half.json"
    for f in model optimizer; do
        ok "the same bits: $f" \
            cmp "$work/whole/step-00000004/$f.safetensors" "$work/half/step-00000004/$f.safetensors"
    done
}

# The same run with every faster way: the same bits, whole and from its middle. The second process
# finds in a file which algorithms were chosen, and the steps after the second are recordings.
quick() {
    after whole
    spec quick
    spec back
    quick="env JOBCTL_CUDA_WAYS=graph,tune CUDA_CPU_REPORT=1 $bin/jobctl-train train --backend cuda"
    ok "a run with recorded steps and chosen algorithms" $quick --spec "$work/quick.json"
    cp "$log" "$work/quick.log"
    ok "its steps are recorded" grep -E 'cuda_cpu: [1-9][0-9]* graphs recorded, 0 left, run [1-9]' \
        "$work/quick.log"
    ok "its algorithms were tried" grep 'the slow algorithm [1-9]' "$work/quick.log"
    ok "and split-k taken" grep 'the fast one [1-9]' "$work/quick.log"
    mkdir "$work/back"
    cp -r "$work/quick/step-00000002" "$work/quick/products.0-of-1" "$work/back/" || bad=1
    ok "the same from its middle" $quick --spec "$work/back.json"
    cp "$log" "$work/back.log"
    ok "without trying again" grep 'the slow algorithm 0 times' "$work/back.log"
    for other in quick back; do
        for f in model optimizer; do
            ok "the same bits as without: $f of $other" cmp \
                "$work/whole/step-00000004/$f.safetensors" "$work/$other/step-00000004/$f.safetensors"
        done
    done
    spec grace
    ok "where the GPU reads ordinary memory itself, late" env CUDA_CPU_GRACE=1 $quick --spec "$work/grace.json"
    ok "the same bits" cmp "$work/whole/step-00000004/model.safetensors" \
        "$work/grace/step-00000004/model.safetensors"
    not_recorded capture "the capture's end: operation not permitted"
    not_recorded begin "the capture's begin: operation not permitted"
    not_recorded recorded 'a call: .*a product of .*: cuBLASLt status 13'
    every_way
}

# FAIL WHY: steps run call by call
not_recorded() {
    spec "lost-$1"
    ok "where nothing can be recorded: $1" env CUDA_CPU_FAIL="$1" JOBCTL_CUDA_WAYS=graph \
        "$bin/jobctl-train" train --backend cuda --spec "$work/lost-$1.json"
    cp "$log" "$work/lost.log"
    ok "which is told" grep "could not be recorded, .*: $2" "$work/lost.log"
    ok "the same bits" cmp "$work/whole/step-00000004/model.safetensors" \
        "$work/lost-$1/step-00000004/model.safetensors"
}

# Without a word on ways, as users run it, all are taken.
every_way() {
    alter ways '"preset":"tiny"' '"preset":"tiny","depth":1'
    ok "every way, as nobody forbids it" env -u JOBCTL_CUDA_WAYS CUDA_CPU_REPORT=1 \
        "$bin/jobctl-train" train --backend cuda --spec "$work/ways.json"
    cp "$log" "$work/ways.log"
    ok "steps are recorded" grep -E 'cuda_cpu: [1-9][0-9]* graphs recorded, 0 left, run [1-9]' "$work/ways.log"
    ok "algorithms are tried" grep 'the slow algorithm [1-9].*columns summed [1-9]' "$work/ways.log"
}

# Sums of columns come with products, or from a pass of their own, whichever is faster; and so they go on.
sums() {
    sums="env JOBCTL_CUDA_WAYS=tune,bgrad CUDA_CPU_REPORT=1"
    for how in come apart; do
        alter sums-$how '"preset":"tiny"' '"preset":"tiny","depth":1'
        alter sums-$how-on '"preset":"tiny"' '"preset":"tiny","depth":1'
        ok "sums that $how" $sums ${slow:-} "$bin/jobctl-train" train --backend cuda --spec "$work/sums-$how.json"
        cp "$log" "$log.tried"
        mkdir "$work/sums-$how-on"
        cp -r "$work/sums-$how"/{step-00000002,products.0-of-1} "$work/sums-$how-on/" || bad=1
        ok "from their middle, where the others are faster" $sums ${other-CUDA_CPU_FAIL=bgrad:slow} \
            "$bin/jobctl-train" train --backend cuda --spec "$work/sums-$how-on.json"
        cp "$log" "$log.$how"
        ok "memory is left as without trying: $(grep 'arrays of the device are left' "$log.tried")" \
            grep -qxF "$(grep 'arrays of the device are left' "$log.tried")" "$log.$how"
        ok "the same bits" cmp "$work"/sums-$how{,-on}/step-00000004/model.safetensors
        slow=CUDA_CPU_FAIL=bgrad:slow other=
    done
    ok "as they were chosen" grep 'columns summed [1-9]' "$log.come"
    ok "as they were chosen" grep 'columns summed 0 times' "$log.apart"
    other_machine
}

# Algorithms that another GPU has chosen are not taken, and its file makes way. A byte of the GPU's name is another one.
other_machine() {
    chosen=$work/sums-other/products.0-of-1
    alter sums-other '"preset":"tiny"' '"preset":"tiny","depth":1'
    mkdir "$work/sums-other"
    cp -r "$work"/sums-come/{step-00000002,products.0-of-1} "$work/sums-other/" || bad=1
    printf 'X' | dd of="$chosen" bs=1 seek=16 conv=notrunc status=none
    ok "with the choices of another GPU" $sums "$bin/jobctl-train" train --backend cuda --spec "$work/sums-other.json"
    cp "$log" "$log.other"
    ok "algorithms are tried again" grep 'the slow algorithm [1-9]' "$log.other"
    ok "and the file has a head of this GPU" cmp -n 144 "$chosen" "$work/sums-come/products.0-of-1"
}

# Batches as a device wants them, and as they are made on the CPU: the same bits. Captions of bf16 are half as large,
# and of noise come the streams only.
uploaded() { sed -n 's/^cuda_cpu: \([0-9]*\) bytes came from the host$/\1/p' "$work/$1.log"; }
input_of() { # PRECISION BYTES: at least so many fewer
    for how in short plain; do
        alter input-$1-$how '"precision":"fp32"' "\"precision\":\"$1\",\"caption_dropout\":0.4"
        ok "$1, $how batches" env CUDA_CPU_REPORT=1 CUDA_CPU_GUARD=1 ${plain:+TRAIN_TEST_PLAIN_INPUT=1} \
            "$bin/jobctl-train" train --backend cuda --spec "$work/input-$1-$how.json"
        cp "$log" "$work/input-$1-$how.log"
        plain=1
    done
    plain=
    for f in model optimizer; do
        ok "the same bits: $f" cmp "$work"/input-"$1"-{short,plain}/step-00000004/$f.safetensors
    done
    saved=$(($(uploaded "input-$1-plain") - $(uploaded "input-$1-short")))
    ok "from $(uploaded "input-$1-short") bytes, $saved fewer" test $saved -ge "$2"
}
input() {
    noise=$((4 * 3 * (48 * 8 * 8 * 4 - 20))) # of 4 steps of 3 samples, a stream is 20 bytes
    input_of bf16 $((noise + 1))
    input_of fp32 $noise
    ok "memory for batches is unlocked at the end" test \
        "$(grep -c '^cuda_cpu: 0 pieces of host memory are left page-locked' "$work"/input-*.log | grep -c ':1$')" = 4
    ok "noise is drawn on the device" test "$saved" -eq $noise
}

# Out of memory: the next start takes half of the samples at a time, of the same batch.
too_large() {
    cat >"$work/small.json" <<JSON
{"schema":1,"train":{"model":{"preset":"tiny"},"data":{"path":"templates/data/tango-icons",
 "caption_words":4,"caption_channels":32},"batch":{"global":8,"micro":8},"steps":1,
 "sample":{"after":false}},"checkpoint":{"dir":"$work/small"}}
JSON
    small="$bin/jobctl-train train --backend cuda --spec $work/small.json"
    ends 72 'micro-batches of 8 do not fit; the next start uses 4: out of GPU memory' \
        env CUDA_CPU_FAIL=memory:40 $small
    ends 0 'batch: 8 samples in 2 micro-batches of 4 (the run ran out of memory with larger ones)' \
        env CUDA_CPU_FAIL=memory:40 $small
    sed -i 's/"micro":8/"micro":"auto"/; s/small"}}/auto"}}/' "$work/small.json"
    ends 0 'batch: 8 samples in . micro-batches of . (the most that fits into 85 %' \
        env CUDA_CPU_FAIL=memory:45 $small
}

# Pictures of many sizes: half as many of one size would leave arrays for all of another; the next start's
# are smaller, and fit where those did not.
many_sizes() {
    ok "pictures of many sizes" python3 tests/e2e/pictures.py "$work/pictures"
    cat >"$work/many.json" <<JSON
{"schema":1,"train":{"model":{"preset":"tiny"},"data":{"path":"$work/pictures","multi_scale":true,
 "resolution":64,"caption_words":4,"caption_channels":32},"batch":{"global":8,"micro":8},"steps":2,
 "sample":{"after":false},"grad_checkpointing":false},"checkpoint":{"dir":"$work/many"}}
JSON
    many="$bin/jobctl-train train --backend cuda --spec $work/many.json"
    ends 72 'do not fit; the next start uses at most 4 of .* and no more pixels of other sizes: out of GPU' \
        env CUDA_CPU_FAIL=memory:50 $many
    ends 0 'batch: 8 samples in [2-9] micro-batches of [4-7] (the run ran out of memory with larger ones)' \
        env CUDA_CPU_FAIL=memory:50 $many
}

# --- two GPUs, with the stand-in of NCCL: the losses of one ------------------------------------

ranks() { # N NAME: to the end; their words and how each ended
    mkdir -p "$work/$2.meet"
    pids=
    for ((r = 0; r < $1; r++)); do
        RANK=$r LOCAL_RANK=$r WORLD_SIZE=$1 CUDA_CPU_DEVICES=$1 JOBCTL_NONCE="$work/$2" \
            JOBCTL_RENDEZVOUS="$work/$2.meet" \
            env ${calls:+CUDA_CPU_LOG="$work/$2.$r.calls" FAKE_NCCL_LOG="$work/$2.$r.calls"} \
            $([ "$r" = 0 ] || echo "${other:+CUDA_CPU_GPU=$other}") \
            "$bin/jobctl-train" train --backend cuda --spec "$work/$2.json" \
            >"$work/$2.$r.log" 2>&1 &
        pids="$pids $!"
    done
    codes=
    for p in $pids; do
        wait "$p"
        codes="$codes $?"
    done
    cat "$work/$2".?.log
    echo "exit$codes"
}
two() { ranks 2 "$1"; }
losses() { read_json each step loss <"$work/$1/metrics.jsonl"; }
last_loss() { losses "$1" | sed -n 's/^4 \(......\).*/\1/p'; }
same_last_loss() { [ -n "$(last_loss "$1")" ] && [ "$(last_loss "$1")" = "$(last_loss "$2")" ]; }
near() { # the same losses, step by step, to five digits
    losses "$1" >"$work/$2.1" && losses "$2" >"$work/$2.2" && paste -d' ' "$work/$2.1" "$work/$2.2" | awk '
        { n++; d = $2 - $4; if (d < 0) d = -d; if ($1 != $3 || d > 1e-5 * $2) bad = bad " " $1 }
        END { print n " steps, far at:" bad; exit n != 4 || bad != "" }'
}

pair() {
    after whole
    spec pair
    two pair >"$work/pair.out"
    ok "two GPUs are connected" grep 'gpus: 2, connected by NCCL 2.28.9' "$work/pair.out"
    ok "two GPUs end well" grep '^exit 0 0' "$work/pair.out"
    ok "two GPUs have the losses of one" near whole pair
    alter resumed '"precision"' '"parallel":"fsdp","precision"'
    mkdir "$work/resumed"
    cp -r "$work/whole/step-00000002" "$work/resumed/" || bad=1
    two resumed >"$work/resumed.out"
    ok "fsdp goes on from the checkpoint of one GPU" grep 'resumed: step 2' "$work/resumed.out"
    ok "with its loss" same_last_loss whole resumed
}

# A part of the optimizer's state on each, or of all; and with narrow weights, which each rank must make of
# what the other has updated.
shared() { # OPTIMIZER PRECISION SHARING...
    one=one-$1-$2
    optimizer="\"type\":\"$1\",\"lr\""
    alter "$one" '"lr"' "$optimizer" '"fp32"' "\"$2\""
    ok "one GPU, $1 $2" "$bin/jobctl-train" train --backend cuda --spec "$work/$one.json"
    optimizer_of=$1 precision=$2
    shift 2
    for how; do
        run=$how-$optimizer_of-$precision
        alter "$run" '"lr"' "$optimizer" '"precision":"fp32"' \
            "\"parallel\":\"$how\",\"precision\":\"$precision\""
        two "$run" >"$work/$run.out"
        ok "two GPUs end well: $run" grep '^exit 0 0' "$work/$run.out"
        ok "and have the losses of one" near "$one" "$run"
    done
}
# fsdp: two units are asked for before anything is computed, and in the backward pass the one after the next before
# the sums of one leave; so the last two of them leave without one in between.
ahead() { # FILE
    awk '/^(all_gather|broadcast)/ { n++; since = 0 }
        $2 == "patch_embed" { first = first ? first : n }
        /^reduce/ { if (++since == 2 && first == 2) steps++ }
        END { print steps + 0 " steps, the first after " first + 0 " units"; exit steps != 4 }' "$1"
}
adamw_fp32() {
    calls=1
    shared adamw fp32 zero1 fsdp
    ok "units come before they are needed" ahead "$work/fsdp-adamw-fp32.0.calls"
}
adamw_bf16() { shared adamw bf16 zero1 fsdp; }
came_fp32() { shared came fp32 fsdp; }

# From sums of integers, made and added on the GPUs: the same bits, whoever has what.
exact() {
    as_integers() { # NAME MORE-KEYS
        alter "$1" '"precision"' "$2\"reproducible\":true,\"precision\"" '"micro":2' '"micro":1' \
            '"preset":"tiny"' '"preset":"tiny","depth":1' '"steps":4' '"steps":3'
    }
    as_integers exact ''
    ok "a reproducible run on a GPU" env CUDA_CPU_GUARD=1 \
        "$bin/jobctl-train" train --backend cuda --spec "$work/exact.json"
    for n in 2 3; do
        for how in ddp zero1 fsdp; do
            run=exact-$how-$n
            as_integers $run "\"parallel\":\"$how\","
            ranks $n $run >"$work/$run.out"
            ok "$run ends well" grep -E '^exit( 0)+$' "$work/$run.out"
            for f in model optimizer; do
                ok "the same bits as on one: $f of $run" cmp \
                    "$work/exact/step-00000003/$f.safetensors" "$work/$run/step-00000003/$f.safetensors"
            done
        done
    done
}

torn() {
    spec torn
    FAKE_NCCL=async:3 two torn >"$work/torn.out"
    ok "an error of NCCL is told" grep 'NCCL failed in a collective: remote process exited' \
        "$work/torn.out"
    ok "and ends both" grep '^exit 74 74' "$work/torn.out"
    spec none
    JOBCTL_NCCL=/nowhere.so two none >"$work/none.out"
    ok "which is a missing library" grep -E '^exit .*67' "$work/none.out"
    ok "without NCCL" grep 'several GPUs need NCCL, which cannot be loaded: /nowhere.so' \
        "$work/none.out"
}

# --- words -------------------------------------------------------------------------------------

# The table of check-gpu, with a peer that says what PyTorch would: steps, ratios, what fails, and the file to send.
table() {
    mkdir "$work/bin"
    cat >"$work/bin/python3" <<'PEER'
#!/bin/sh
[ "$1" = -c ] || echo "x: pytorch eager, 40.00 ms/step (median of 1), 1 samples/s, MFU 12.5 %, torch 2"
PEER
    chmod +x "$work/bin/python3"
    table="env PATH=$work/bin:$PATH TMPDIR=$work CONFIG=tests/golden/sana/bench_configs.json REPORT=$work/report
        CASES=tiny-base-b8 BATCHES=1 STEPS=1 tests/gpu/run.sh $bin $plugin $kernels"
    ends 0 'tiny-base-b8, batch 1: .* ms, PyTorch compiled 40.00 ms: .* times as fast' \
        env PARTS='step peer profile' $table
    ok "and leaves the file to send only" test "$(ls -d "$work"/check-gpu.* "$work/report" 2>/dev/null)" = "$work/report"
    ok "what each part printed is in it" grep -A 99 '=== peer__tiny-base-b8__compiled' "$work/report"
    ok "and the kernels of a step" grep -A 9 '=== profile_of_a_step__tiny-base-b8' "$work/report"
    ends 1 'step, tiny-base-b8 .* FAILED .* a CUDA call failed: adamw' \
        env PARTS=step CUDA_CPU_FAIL=kernel:adamw $table
    ok "why is in the file, too" grep 'a CUDA call failed: adamw' "$work/report"
    ends 0 'no CUDA device: skipped (no GPU: the driver shows' env CUDA_CPU_FAIL=device $table
    ends 1 'FAILED: the NVIDIA driver is too old: it knows CUDA up to 12.4' env CUDA_CPU_FAIL=old $table
    ends 0 'check-gpu: all passed' env PARTS=kernels CUDA_CPU_GPU=t4 $table
    ends 1 'recorded steps, bf16 .* FAILED .*a step could not be recorded' env PARTS=recorded CUDA_CPU_FAIL=capture $table
    ends 0 'two GPUs, bf16 .* ok .* the same bits' env PARTS=two GPUS=2 CUDA_CPU_DEVICES=2 $table
    ends 1 'two GPUs, bf16 .* FAILED .*NCCL failed' env PARTS=two GPUS=2 CUDA_CPU_DEVICES=2 FAKE_NCCL=async:20 $table
    ends 1 "two GPUs, NCCL's sums .* FAILED .*wrong data" env PARTS=two GPUS=2 CUDA_CPU_DEVICES=2 FAKE_NCCL=wrong:1:4 $table
    wrong_input
    ends 130 'no part ran, 8 not run or not done' env PARTS=golden timeout --preserve-status -s INT 4 $table
    ok "an interrupted run leaves a report" grep 'golden cases, bf16, plain .* not run .* interrupted' "$work/report"
}

# Each is refused in one sentence, before a GPU is used; nothing that passed is said to have passed if nothing ran.
wrong_input() {
    ends 64 'PARTS has "nonsense", which is no part; expected some of: kernels golden' env PARTS=nonsense $table
    ends 64 'the report /nowhere/x cannot be written' ${table/"REPORT=$work/report"/REPORT=/nowhere/x}
    ends 64 'no directory can be made in /nowhere' ${table/"TMPDIR=$work"/TMPDIR=/nowhere}
    ends 64 'has no model nonsense' ${table/CASES=tiny-base-b8/CASES=nonsense}
    ends 64 'LIMIT is "x"' env LIMIT=x $table
    ends 64 'no program /nowhere/jobctl-train' ${table/"run.sh $bin"/run.sh /nowhere}
    ends 64 'no program /nowhere' ${table/"$plugin $kernels"/$plugin /nowhere}
    ends 1 'FAILED: the CUDA kernels cannot be loaded: .*; build them again' ${table/"$plugin $kernels"/Makefile $kernels}
    ends 2 'no test "nonsense"; the tests are: recordings, linear' "$kernels" "$plugin" fp32 --only nonsense
    ends 2 usage: "$kernels" "$plugin" fp16
    ends 1 'no part ran, 1 not run' env PARTS=two GPUS=1 NVIDIA_API_KEY=secret JOBCTL_X=/home/me/x HOME="$work" $table
    ok "a report has no key, home or path of this folder" test "$(grep -c "secret\|/me/\|$PWD" "$work/report")" = 0
    ok "but the variables" grep -x 'JOBCTL_X=/home/USER/x' "$work/report"
}

# Each kernel has an event before and one behind it, and no other kernel between them: each takes a microsecond here.
profile() {
    ok "a step by kernel" "$bin/jobctl-train" bench --backend cuda --profile --steps 1 --warmup 0 --precision bf16 \
        --config tests/golden/sana/bench_configs.json --case tiny-base-b8
    cp "$log" "$work/profile.log"
    ok "kernels take their own time" awk '$1 == "profile" && $4 ~ /,/ { n++; bad += $6 != $5 / 1000 ? 1 : 0 }
        END { print n + 0 " kernels, " bad + 0 " of them for other times"; exit n < 30 || bad }' "$work/profile.log"
    ok "products too" awk '$1 == "profile" && $3 ~ /x.*x/ { n++; bad += $6 != $5 }
        END { print n + 0 " products"; exit n < 20 || bad }' "$work/profile.log"
    ok "the longest are first" awk '$1 == "profile" { bad += n++ && $6 > last; last = $6 } END { print n; exit bad }' \
        "$work/profile.log"
    cat >"$work/counts" <<'END'
kernel  grid  block  shared calls fp A100 ms by H100 ms by H200 ms by
slow_kernel<4> 8,1,1 256,1,1 0 1 0.5 0.9000 exp, 1/x 0.6000 memory 0.5000 shared memory
slow_kernel<4> 8,1,1 256,1,1 0 3 0.5 0.9000 exp, 1/x 0.6000 memory 0.1000 memory
END
    cat >"$work/lines" <<'END'
profile slow slow_kernel<4> 8,1,1 2 0.8000 3.00 -
profile linear 1000x1000x989000 - 1 4.0000 9.00 1
profile zero - - 1 0.1000 1.00 -
END
    ok "and their bounds" tests/gpu/roofline.sh "NVIDIA H200" "$work/counts" <"$work/lines"
    cp "$log" "$work/roofline.log"
    ok "is half of a kernel's time" grep -E '^slow .* 2 +0.8000 +0.4000 +50  shared memory$' "$work/roofline.log"
    ok "and of a product's" grep -E '^linear .* 1 +4.0000 +2.0000 +50  tensor cores$' "$work/roofline.log"
    ok "of all" grep -x '2.4000 ms at best of 4.8000 ms: 50 %; 0.1000 ms more without a bound' "$work/roofline.log"
    ends 64 'add --backend cuda' "$bin/jobctl-train" bench --profile --config tests/golden/sana/bench_configs.json \
        --case tiny-base-b8
    ends 64 'add --backend cuda' "$bin/jobctl-train" vae bench --profile --backend cpu
    bench="$bin/jobctl-train bench --config tests/golden/sana/bench_configs.json"
    ends 64 'leave out --json' $bench --case tiny-base-b8 --profile --json
    ends 64 'bench_configs.json has no configuration "x"; --case chooses one of: .*tiny-base-b8' $bench --case x
    ends 64 'choose one with --case: .*tiny-base-b8' $bench
    ends 64 'bench: --config: unable to open /nowhere.json: No such file' "$bin/jobctl-train" bench --config /nowhere.json
}

# Without a word on precision it trains, and says in what; bf16 is refused with what to do.
no_bf16() {
    spec old
    sed -i 's/"precision":"fp32",//' "$work/old.json"
    ends 0 'computing in fp32: .* has compute capability 7.5, and bf16 needs 8.0' \
        $t4 "$bin/jobctl-train" train --backend cuda --spec "$work/old.json"
    ends 0 'precision   fp32 on .*; computing in fp32: .* compute capability 7.5' \
        $t4 "$bin/jobctl-train" plan --spec "$work/old.json"
    ends 0 'precision   bf16 on' "$bin/jobctl-train" plan --spec "$work/old.json"
    ends 0 'precision   fp32 on a GPU with 15 GiB and no bf16' \
        "$bin/jobctl-train" plan --spec "$work/old.json" --gpu-memory 15:fp32
    ends 64 'the GPU has no bf16: .*; precision auto uses fp32 there' $t4 "$bin/jobctl-verify" \
        --backend cuda --precision bf16 tests/golden/sana/tiny-base.json
}

failures() {
    verify="$bin/jobctl-verify --backend cuda tests/golden/sana/tiny-base.json"
    ends 67 'no NVIDIA driver' env CUDA_CPU_FAIL=driver $verify
    ends 67 'driver is too old: it knows CUDA up to 12.4, and .* built with 13.0, .* needs driver 580 or newer' \
        env CUDA_CPU_FAIL=old $verify
    ends 67 'driver is too old: it must compile .* knows CUDA up to 13.0; install a driver for CUDA 13.1 or newer' \
        env CUDA_CPU_FAIL=ptx $verify
    ends 67 'the GPU cannot be used: the kernels .* capability is 8.9; build with CUDA_TARGETS=89' \
        env CUDA_CPU_FAIL=image $verify
    ends 67 'no GPU' env CUDA_CPU_FAIL=device $verify
    ends 67 'cuBLASLt is missing' env JOBCTL_CUBLASLT=/nowhere.so $verify
    ends 67 'cannot be loaded' env JOBCTL_CUDA=/nowhere.so $verify
    ends 72 'out of GPU memory' env CUDA_CPU_FAIL=memory:1 $verify
    ends 73 'the GPU failed: .*uncorrectable ECC error' env CUDA_CPU_FAIL=launch:40 CUDA_CPU_ERROR=214 $verify
    ends 83 'a CUDA call failed: .*launch failure' env CUDA_CPU_FAIL=launch:40 CUDA_CPU_ERROR=719 $verify
    ends 83 'a CUDA call failed: adamw: .*illegal memory access' env CUDA_CPU_FAIL=kernel:adamw "$bin/jobctl-train" bench \
        --backend cuda --config tests/golden/sana/bench_configs.json --case tiny-base-b8 --steps 1
    spec wide
    sed -i 's/"preset":"tiny"/"preset":"tiny","hidden":256,"linear_head_dim":256/' "$work/wide.json"
    ends 64 'linear_head_dim is 256' "$bin/jobctl-train" train --backend cuda --spec "$work/wide.json"
    for fail in "device no GPU" "old the NVIDIA driver is too old" "ptx the NVIDIA driver is too old" \
        "image the GPU cannot be used"; do
        ends 0 "running on the CPU: ${fail#* }" env CUDA_CPU_FAIL="${fail%% *}" \
            "$bin/jobctl-verify" --backend auto tests/golden/sana/tiny-base.json
    done
}

part() { # NAME
    log=$work/log.$1
    "$1" >"$work/$1.told" 2>&1
    cat "$work/$1.told"
    echo $bad >"$work/$1.code"
}

running=0
: "${PARTS:=golden_fp32 golden_bf16 lumina_fp32 lumina_bf16 lumina_run huge_bf16 encoders_fp32 encoders_bf16 encoded memory_fp32 memory_bf16 whole many_sizes adamw_fp32 came_fp32 adamw_bf16
    exact table profile quick input sums pair kernels_fp32 kernels_bf16 small_gpu no_bf16 too_large torn failures every_kernel}"
export -n PARTS # tests/gpu/run.sh has a variable of that name
[ "${7:-}" != all ] || PARTS="lumina_2b_fp32 lumina_2b_bf16 $PARTS"
for name in $PARTS; do
    [ $((running += 1)) -le "${LANES:-2}" ] || wait -n
    part "$name" &
done
wait
grep -qvx 0 "$work"/*.code && exit 1
exit 0
