#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# steady.sh BIN [TIMES [TEST...]] - which end-to-end tests fail now and then on a busy machine
#
# Runs each TEST (default: all; a name such as recovery/nan) TIMES times (5) beside BUSY (4) loops that keep a
# processor busy, one test at a time; one that failed is then run until it has been run AGAIN (50) times. Results go
# into build/steady.txt, a line "NAME EXIT SECONDS" for each run, and a run that is there is not repeated: the script
# can be ended and started again. At the end: a table of the tests that failed, with the log of a failure in
# build/steady/NAME.log. Exit 1: there are some.
set -u
bin=${1:?usage: tests/steady.sh BIN [TIMES [TEST...]]} times=${2:-5}
cd "$(dirname "$0")/.." || exit 1
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || set -- $(printf '%s\n' tests/e2e/*/*.sh | sed 's|tests/e2e/||; s|\.sh$||')
results=build/steady.txt loops=()
mkdir -p build/steady && touch "$results"
for ((i = 0; i < ${BUSY:-4}; i++)); do
    (while :; do :; done) &
    loops+=($!)
done
trap 'kill "${loops[@]}"' EXIT

count() { awk -v name="$1" -v all="$2" '$1 == name && (all || $2) { n++ } END { print n + 0 }' "$results"; }
# once NAME: a run of it, without the second try that others get
once() {
    local start=$SECONDS rc=0
    E2E_LANES=1 TEST_STRICT=1 tests/run_e2e.sh "$bin" "tests/e2e/$1.sh" >build/steady/log 2>&1 </dev/null || rc=$?
    [ $rc = 0 ] || mkdir -p "build/steady/${1%/*}"
    [ $rc = 0 ] || mv build/steady/log "build/steady/$1.log"
    echo "$1 $rc $((SECONDS - start))" >>"$results"
}
for name; do
    while [ "$(count "$name" 1)" -lt "$times" ]; do once "$name"; done
    while [ "$(count "$name" "")" -gt 0 ] && [ "$(count "$name" 1)" -lt "${AGAIN:-50}" ]; do once "$name"; done
done
awk '{ n[$1]++; s[$1] += $3; if ($2) bad[$1]++ }
    END { for (t in n) { runs += n[t]; if (bad[t]) { printf "%s failed %d of %d times\n", t, bad[t], n[t]; some = 1 } }
          printf "%d runs of %d tests\n", runs, length(n); exit some }' "$results"
