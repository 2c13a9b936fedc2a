#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh BIN PORTABLE KERNELS... - the engine on processors of three kinds: base, AVX2, AVX-512
#
# qemu-x86_64 plays a processor without AVX (Nehalem) and one with AVX2 but without AVX-512 (Haswell):
# an instruction that they do not have ends the program as it would there.  QEMU before 8 has no
# AVX-512, so that is run where this machine has it, and else reported as not run.  Each processor
# must pass the kernels' tests, golden cases and steps of the demo's model, and all must agree
# on the numbers that no processor may change (portable.c).  QEMU takes fifty times as long over AVX2, so
# that on Haswell the kernels' tests and the demo's model are left to ALL_CASES=1 (make soak).
set -u
. tests/e2e/wait.sh
bin=$1 portable=$2
shift 2
dir=$(mktemp -d "${TMPDIR:-/tmp}/jobctl-cpus.XXXXXX")
trap 'rm -rf "$dir"' EXIT
# A setting of the user's that picks kernels would be another processor than the one played.
unset JOBCTL_CPU
# TCG says at each start which features of the processor it does not play: nothing that is used here.
play() { qemu-x86_64 -cpu "$1" "${@:2}" 2> >(grep -v "TCG doesn't support" >&2); }
cases=(tests/golden/sana/tiny-base.json tests/golden/lumina/v{3,5}_*.json tests/golden/vae/{small-pair,tiny-kl}.json)
[ -z "${ALL_CASES:-}" ] || cases=(tests/golden/sana/tiny-*[a-z].json tests/golden/lumina/v[1-5]_*[a-z0-9].json tests/golden/vae/*[a-z].json)
config=tests/golden/sana/tiny-base.json
bad=0

# The programs one after the other, each behind the words of `on`, until one fails.
run_tests() {
    local k
    for k in "${kernels[@]}"; do "${on[@]}" "$k" || return; done
    JOBCTL_CKPT_DIR=$dir/$name "${on[@]}" "$bin/jobctl-train" train --spec "$dir/spec.json"
}

# NAME WORD...: everything on one processor; WORD... stands in front of each command.
try() {
    local name=$1 log=$dir/$1.log code=0
    shift
    local on=("$@") long=run_tests
    [ "$name" != avx2 ] || [ -n "${ALL_CASES:-}" ] || long=:
    {
        "${on[@]}" "$bin/jobctl-train" version -v &&
            "${on[@]}" "$bin/jobctl-verify" "${cases[@]}" &&
            "${on[@]}" "$portable" "$config" >"$dir/$name.numbers" && $long
    } >"$log" 2>&1 || code=$?
    if [ $code = 0 ]; then
        printf '%-8s ok: %s\n' "$name:" "$(sed -n 's/^processor: //p' "$log" | head -n 1)"
    else
        printf '%-8s FAILED (exit %d)\n%s\n' "$name:" $code "$(tail -n 25 "$log")"
    fi
    return $code
}
kernels=("$@")

# The demo's model on few pictures: what is computed is the same, and an emulator is slow.
JOBCTL_HOME=$dir/home "$bin/jobctl" submit --dry-run --json templates/sana-icons.yaml --set train.steps=10 --set train.schedule.warmup=2 \
    --set train.batch.global=2 --set train.sample.before=false --set train.sample.after=false \
    >"$dir/spec.json" || { cat "$dir/spec.json"; exit 1; }
# The check of a spec has started a daemon, which has nothing more to do.
daemon=$(JOBCTL_HOME=$dir/home "$bin/jobctl" version --json | field daemon.pid)
kill "$daemon" || exit 1

if command -v qemu-x86_64 >/dev/null; then
    try base play Nehalem &
    emulated=$!
    try avx2 play Haswell || bad=1
    wait $emulated || bad=1
else
    echo 'base, avx2: not run: qemu-x86_64 is missing (package qemu-user)'
fi
if JOBCTL_CPU=avx512 "$bin/jobctl-train" version >/dev/null 2>&1; then
    try avx512 || bad=1
else
    echo "avx512: not run: $(JOBCTL_CPU=avx512 "$bin/jobctl-train" version 2>&1)"
    try here || bad=1
fi
first=
for numbers in "$dir"/*.numbers; do
    first=${first:-$numbers}
    diff -u "$first" "$numbers" || { echo 'these numbers must not depend on the processor' >&2; bad=1; }
done
exit $bad
