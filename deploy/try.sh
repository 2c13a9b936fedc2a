#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# try.sh demo|demo-sana|test|test-all [BIN] - from a clone on a bare Debian or Ubuntu to pictures, or through the tests
#
#   demo       train a small Sana on icons, and show what it learned: a few minutes
#   demo-sana  the path of a Sana fine-tune at toy size: encoders, adapters, pictures of prompts, export
#   test       the tests that need few more packages than the demo
#   test-all   these, and those that need other compilers, Slurm, podman, Prometheus, PyTorch and Chromium
#
# It installs what is missing (deploy/bootstrap.sh), builds, and goes on; `make demo` is the same for those who have make.
# BIN is the folder of the programs (build/bin), from make.
set -euo pipefail
cd "$(dirname "$0")/.."
. deploy/progress.sh
# The make that calls this has its own processors to share out.
MAKEFLAGS=$(sed -E 's/(^| )-j[0-9]*//; s/(^| )--jobserver-[a-z]+=[^ ]*//' <<<"${MAKEFLAGS:-}")
export MAKEFLAGS
what=${1:-} bin=${2:-build/bin}

# build ARGUMENT... - all programs
build() {
    local steps
    steps=$(make -n --no-print-directory all "$@" 2>/dev/null | grep -c 'echo "  [A-Z]* ') || :
    make --no-print-directory -j"$(nproc)" all "$@" | progress compiling "$steps" '^  [A-Z]+ +([^ ]+)'
}

case $what in
demo | demo-sana)
    deploy/bootstrap.sh $([ "$what" = demo ] || echo --tests)
    # Where no GPU is, the demo does without the CUDA plugin, which takes as long to compile as all the rest.
    if [ "$what" = demo ] && [ -e /dev/nvidiactl -o -e /dev/dxg ]; then build; else build NVCC=; fi
    "deploy/${what/-/_}.sh" "$bin"
    echo
    echo "Still running: the controller, $("$bin/jobctl" version | sed -n 's/^daemon .*\(pid [0-9]*\).*/\1/p').  This stops it:"
    echo "  $(printf %q "$(cd "$bin" && pwd)/jobctl") daemon stop"
    ;;
test)
    echo "Units, processes, guards, numbers of the models' authors, simulation, end to end: about 8 minutes on two cores."
    deploy/bootstrap.sh --tests
    tests/stages.sh test
    ;;
test-all)
    echo "${AFTER:+After make $AFTER: }other compilers, sanitizers, CUDA kernels on the CPU, Slurm, containers, PyTorch, a browser:"
    echo "about 30 minutes on two cores$([ -n "${AFTER:-}" ] || echo ", after the 8 of make test")."
    deploy/bootstrap.sh --all
    tests/stages.sh test-all
    ;;
*) sed -n '3,12s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
