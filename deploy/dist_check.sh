#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# dist_check.sh FOLDER - do the unpacked tarball or the installed wheel in FOLDER run on this machine?
#
# Runs a command, trains two steps of the demo's model, and completes a word, as a plain user with an empty HOME.
set -euo pipefail
top=$(cd "$1" && pwd)
export PATH="$top/bin:$PATH" HOME
HOME=$(mktemp -d)
cd "$HOME"
daemon() { jobctl version | sed -n 's/^daemon .*pid //p'; }
end() { kill "$(daemon)" 2>/dev/null || :; rm -rf "$HOME"; }
trap end EXIT
fail() { echo "error: $1" >&2; exit 1; }

jobctl version
for program in jobctl jobctl-ssh jobctl-fetch jobctl-agent jobctl-train; do
    lost=$(ldd "$top/lib/jobctl/bin/$program" | grep 'not found' || :)
    [ -z "$lost" ] || fail "$program: $lost"
done
for program in jobctl-agent jobctl-train; do      # these go to hosts alone
    more=$(ldd "$top/lib/jobctl/bin/$program" | grep -vE 'linux-vdso|ld-linux|lib(c|m|dl|rt|pthread)\.so' || :)
    [ -z "$more" ] || fail "$program needs what a host may lack: $more"
done
printf 'name: hello\nrun: echo hello $RANK\nresources: {gpus: 0, cpus: 1}\n' >hello.yaml
jobctl submit --follow hello.yaml | grep -q '^hello 0' || fail "a job printed something else"
jobctl submit --follow "$top/share/jobctl/templates/sana-icons.yaml" --set train.steps=2 \
    --set train.schedule.warmup=1 --set train.sample.before=false --set train.sample.after=false >log 2>&1 ||
    fail "two steps of the demo: $(tail -n 5 log)"
jobctl completions jobs | grep -q '^hello' || fail "no completions"
CC=none "$top/share/jobctl/build-slurm" >log 2>&1 && fail "build-slurm without a compiler"
grep -q 'no C compiler' log || fail "build-slurm: $(cat log)"
