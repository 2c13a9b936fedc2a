#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# stages.sh test|test-all - the stages of `make test` or `make test-all`: each with a line and its time, then a table
#
# test-all is what test does, and then the rest; with AFTER=test in the environment it is the rest alone.  A stage that
# fails does not end the others, unless it builds what they need.  What each prints is kept in build/stages/NAME.log too.
# The last line counts the tests themselves: of cmocka, and end to end.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
. deploy/progress.sh
logs=build/stages times='' failed='' begin=$SECONDS names=()
mkdir -p "$logs"

span() { printf '%dm%02ds' $(($1 / 60)) $(($1 % 60)); }
goals() { make --no-print-directory -j"$(nproc)" "$@"; }
one_by_one() { make --no-print-directory "$@"; }
# compiled GOAL... - these, with a count instead of a line each
compiled() {
    local steps
    steps=$(make -n --no-print-directory "$@" 2>/dev/null | grep -c 'echo "  [A-Z]* ') || :
    goals "$@" | progress compiling "$steps" '^  [A-Z]+ +([^ ]+)'
}
# The end-to-end tests of `make test`: tests/e2e/first.txt.
first_of_e2e() { one_by_one e2e E2E="$(sed '/^#/d; s|.*|tests/e2e/&.sh|' tests/e2e/first.txt | paste -sd' ')"; }
# Those that have not passed yet.
rest_of_e2e() {
    one_by_one e2e E2E="$(grep -vxFf <(sed -n 's|^ok *\([^ ]*\) .*|tests/e2e/\1.sh|p' $logs/e2e.log 2>/dev/null) \
        < <(printf '%s\n' tests/e2e/*/*.sh) | paste -sd' ')"
}

# stage NAME COMMAND... - run it, and note how it ended
stage() {
    local name=$1 start=$SECONDS result=ok
    shift
    echo "== $name"
    "$@" 2>&1 | tee "$logs/$name.log" || result=FAILED
    [ $result = ok ] || failed+=" $name"
    times+=$(printf '  %-14s %8s  %s' "$name" "$(span $((SECONDS - start)))" $result)$'\n'
    names+=("$name")
    echo "== $name: $result after $(span $((SECONDS - start)))"
    [ $result = ok ]
}

# counted WORD - tests that ended so, by what cmocka and run_e2e.sh print
counted() {
    local n
    n=$(cat "${names[@]/#/$logs/}" 2>/dev/null | sed -nE "$1" | paste -sd+)
    echo $((${n:-0}))
}
table() {
    echo
    printf '%s' "$times"
    printf '  %-14s %8s\n\n' all "$(span $((SECONDS - begin)))"
    names=("${names[@]/%/.log}")
    local bad
    bad=$(($(counted 's/^(verify: )?[0-9]+ passed, ([0-9]+) failed.*/\2/p') + $(counted 's/^\[  FAILED  \] ([0-9]+) test.*/\1/p')))
    for name in $failed; do echo "FAILED: $name; its output is in $logs/$name.log"; done
    [ -z "$failed" ] || [ $bad -gt 0 ] || bad=1
    [ -n "$failed" ] || bad=0 # those that passed at their second try
    echo "$(($(counted 's/^(verify: )?([0-9]+) passed, [0-9]+ failed.*/\2/p') + $(counted 's/^\[  PASSED  \] ([0-9]+) test.*/\1/p'))) passed," \
        "$bad failed, $(counted 's/^[0-9]+ passed, [0-9]+ failed, ([0-9]+) skipped.*/\1/p') skipped"
    [ -z "$failed" ]
    exit
}

if [ "${AFTER:-}" != test ]; then
    rm -f $logs/*.log
    stage build compiled all tests-built || table
    stage check goals check
    stage house goals house
    stage golden one_by_one golden
    stage simulation goals sim
    stage e2e first_of_e2e
fi
[ "$1" = test-all ] || table
stage build-more compiled all more-built || table
stage more-guards goals circles resources
stage clang goals clang
stage faults one_by_one mutants-known
stage gcc-11 one_by_one older
stage processors one_by_one cpus
stage cuda-cpu goals cuda-cpu
stage ptx goals ptx
stage e2e-more rest_of_e2e
stage sanitizers one_by_one asan
table
