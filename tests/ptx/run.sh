#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh BIN PLUGIN CHECK_KERNELS [all] - kernels and golden cases in what nvcc made of the kernels, interpreted
#
# PLUGIN is libjobctl_cuda.so as nvcc compiles it, with the interpreter in place of CUDA's runtime.  Without `all`
# the golden cases of one step only, and arrays as they are aligned in a run.  At the end faults are made in the PTX,
# which must be reported.
set -u
bin=$1 plugin=$(realpath "$2") kernels=$3 all=${4:-}
export JOBCTL_CUDA="$plugin" JOBCTL_CUBLASLT="$plugin" JOBCTL_CUDA_WAYS="tune graph tensor bgrad"
export OMP_NUM_THREADS=1 CUDA_CPU_LAZY=1
lumina=tests/golden/lumina
cases="tests/golden/sana/tiny-base.json tests/golden/sana/tiny-qknorm.json $lumina/v3_noqknorm_16ch.json
    $lumina/v5_gqa_widerange.json $lumina/v6_wide_proc.json"
[ "$all" != all ] || cases=$(ls tests/golden/sana/tiny-*[a-z].json $lumina/v*.json)
work=$(mktemp -d)
log=$work/log
trap 'rm -rf "$work"' EXIT
bad=0

# ok WHAT COMMAND... - one line; the output when it fails
ok() {
    what=$1
    shift
    if "$@" >"$log" 2>&1; then
        echo "ok     ptx, $what: $(tail -n 1 "$log")"
    else
        echo "FAILED ptx, $what (exit $?)"
        cat "$log"
        bad=1
    fi
}

# finds WORDS SCRIPT TEST - sed's SCRIPT makes a fault in the PTX, which that test of check_kernels must report in
# these words
finds() {
    sed "$2" "$work/kernels.ptx" >"$work/planted.ptx"
    if cmp -s "$work/kernels.ptx" "$work/planted.ptx"; then
        echo "FAILED ptx: nothing to plant by $2"
        bad=1
    elif PTX_FROM="$work/planted.ptx" "$kernels" "$plugin" bf16 --only "$3" >"$log" 2>&1 || ! grep -q "$1" "$log"; then
        echo "FAILED ptx, $2: not reported as $1:"
        cat "$log"
        bad=1
    else
        echo "ok     ptx, planted: $(grep -om 1 "$1" "$log")"
    fi
}

# rounds_each KERNEL - no product and sum of double are one fma, which would be rounded once: the CPU rounds both
rounds_each() {
    sed -n "/\.entry.*$1/,/^}/p" "$work/kernels.ptx" >"$work/entry"
    grep 'fma[.a-z]*[.]f64' "$work/entry" && return 1
    echo "$(grep -c 'mul[.]rn[.]f64' "$work/entry") products"
    grep -q 'mul[.]rn[.]f64' "$work/entry"
}

for precision in fp32 bf16; do
    ok "kernels $precision" "$kernels" "$plugin" $precision
    [ "$all" != all ] || ok "kernels $precision, plain, arrays aligned to a number only" \
        env JOBCTL_CUDA_WAYS= CHECK_KERNELS_SHIFT=1 "$kernels" "$plugin" $precision
    # shellcheck disable=SC2086
    ok "golden cases $precision" "$bin/jobctl-verify" --backend cuda --precision $precision $cases
done
PTX_TEXT="$work/kernels.ptx" "$kernels" "$plugin" bf16 --only patch >/dev/null 2>&1
ok "draw_normal has no fma" rounds_each draw_normal_kernel
finds "and no barrier between" 's|^\([[:space:]]*\)bar.sync|//|' mix
finds "and no barrier between" 's|^\([[:space:]]*\)bar.warp.sync|//|' cross_attn
finds "out of bounds" '/ld.shared.f32/s/\(\[%r[0-9]*\)]/\1+200000]/' lin_attn
finds "misaligned" '/ld.global.v4.u16/s/\(\[%rd[0-9]*\)]/\1+2]/' rms_norm
finds "is in no allocation\|before the end of its allocation" '/st.global.v4.u16/s/\(\[%rd[0-9]*\)]/\1+262144]/' rms_norm
finds "is a form that this interpreter does not know" 's/fma.rn.f32/fma.xx.f32/' silu
exit $bad
