#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BIN PLUGIN CHECK_KERNELS TEST_MEMORY - what can be known about the CUDA backend without a GPU
#
# PLUGIN is libjobctl_cuda.so built against the stand-in of CUDA beside this
# file: the same sources, run on the CPU.  Indices, arithmetic, memory and the
# words for failures are checked; nothing is learned about a GPU.
set -u
bin=$1 plugin=$(realpath "$2") kernels=$3 memory=$4
export JOBCTL_CUDA="$plugin" JOBCTL_CUBLASLT="$plugin"
work=$(mktemp -d)
log=$work/log
trap 'rm -rf "$work"' EXIT
bad=0
cases=$(ls tests/golden/sana/tiny-*[a-z].json)

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

for precision in fp32 bf16; do
    ok "kernels $precision" "$kernels" "$plugin" $precision
    ok "kernels $precision, threads in reverse" \
        env CUDA_CPU_ORDER=reverse "$kernels" "$plugin" $precision
    ok "kernels $precision, no algorithm in cuBLASLt" \
        env CUDA_CPU_FAIL=algorithm "$kernels" "$plugin" $precision
    # shellcheck disable=SC2086
    ok "golden cases $precision" \
        "$bin/jobctl-train" verify --backend cuda --precision $precision $cases
done
for precision in fp32 bf16; do
    ok "memory as planned $precision" env PRECISION=$precision "$memory"
done
ok "no touch of device memory from outside" env CUDA_CPU_GUARD=1 \
    "$bin/jobctl-train" verify --backend cuda tests/golden/sana/tiny-qknorm.json

# A run on the device, pictures and all; again from its middle: the same bits.
spec() {
    cat >"$work/$1.json" <<JSON
{"schema":1,"train":{"model":{"preset":"tiny"},"data":{"path":"templates/data/tango-icons",
 "caption_words":4,"caption_channels":32},"batch":{"global":3,"micro":2},"steps":4,"ema":0.9,
 "optimizer":{"lr":1e-3},"precision":"fp32","sample":{"after":true,"steps":2,"count":2}},
 "checkpoint":{"every":{"steps":2},"dir":"$work/$1"}}
JSON
}
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

# Out of memory: the next start takes half of the samples at a time, of the same batch.
cat >"$work/small.json" <<JSON
{"schema":1,"train":{"model":{"preset":"tiny"},"data":{"path":"templates/data/tango-icons",
 "caption_words":4,"caption_channels":32},"batch":{"global":8,"micro":8},"steps":1,
 "sample":{"after":false}},"checkpoint":{"dir":"$work/small"}}
JSON
small="$bin/jobctl-train train --backend cuda --spec $work/small.json"
ends 72 'micro-batches of 8 were too large, the next start takes 4: out of GPU memory' \
    env CUDA_CPU_FAIL=memory:42 $small
ends 0 'batch: 8 samples in 2 micro-batches of 4 (the run ran out of memory with more)' \
    env CUDA_CPU_FAIL=memory:42 $small
sed -i 's/"micro":8/"micro":"auto"/; s/small"}}/auto"}}/' "$work/small.json"
ends 0 'batch: 8 samples in . micro-batches of . (the most that fits into 85 %' \
    env CUDA_CPU_FAIL=memory:46 $small

verify="$bin/jobctl-train verify --backend cuda tests/golden/sana/tiny-base.json"
ends 67 'no NVIDIA driver' env CUDA_CPU_FAIL=driver $verify
ends 67 'driver is too old' env CUDA_CPU_FAIL=old $verify
ends 67 'no GPU' env CUDA_CPU_FAIL=device $verify
ends 67 'cuBLASLt is missing' env JOBCTL_CUBLASLT=/nowhere.so $verify
ends 67 'cannot be loaded' env JOBCTL_CUDA=/nowhere.so $verify
ends 72 'out of GPU memory' env CUDA_CPU_FAIL=memory:1 $verify
ends 73 'the GPU failed' env CUDA_CPU_FAIL=launch:40 $verify
ends 73 'the GPU failed: adamw' env CUDA_CPU_FAIL=kernel:adamw "$bin/jobctl-train" bench \
    --backend cuda --config tests/golden/sana/bench_configs.json --case tiny-base-b8 --steps 1
sed 's/"preset":"tiny"/"preset":"tiny","hidden":256,"linear_head_dim":128/' "$work/whole.json" \
    >"$work/wide.json"
ends 64 'linear_head_dim is 128' "$bin/jobctl-train" train --backend cuda --spec "$work/wide.json"
ends 0 'running on the CPU: no GPU' env CUDA_CPU_FAIL=device \
    "$bin/jobctl-train" verify --backend auto tests/golden/sana/tiny-base.json
exit $bad
