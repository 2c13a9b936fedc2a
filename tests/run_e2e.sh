#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run_e2e.sh BIN [NAME...] - run tests/e2e/NNNN-name.sh, each with a private JOBCTL_HOME
#
# A test exits 0 (passed), 77 (skipped, last line says why) or anything else.
# After each, nothing of it may be left: no process with its home in the
# environment, no file.  The last line is what a log reader counts.
set -u
bin=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/.." || exit 1
passed=0 failed=0 skipped=0
[ $# -gt 0 ] || set -- tests/e2e/[0-9]*.sh
for t in "$@"; do
    [ -f "$t" ] || continue
    name=$(basename "$t" .sh)
    home=$(mktemp -d "${TMPDIR:-/tmp}/jobctl-e2e.XXXXXX")
    start=$(date +%s.%N)
    env -u DISPLAY HOME="$home" JOBCTL_HOME="$home/state" PATH="$bin:$PATH" BIN="$bin" \
        TOP="$PWD" WORK="$home" timeout -k 5 "${E2E_TIMEOUT:-240}" bash -eu "$t" >"$home/log" 2>&1
    rc=$?
    took=$(awk -v a="$start" -v b="$(date +%s.%N)" 'BEGIN{printf "%.1f", b-a}')
    left=$(tests/e2e/leftover.sh "$home")
    if [ $rc = 0 ] && [ -n "$left" ]; then
        rc=98
        printf 'processes left behind:\n%s\n' "$left" >>"$home/log"
    fi
    # 77 without a word is no test that skips itself, but a rank that ended so (desync)
    [ $rc != 77 ] || [ -s "$home/log" ] || rc=97
    case $rc in
    0) passed=$((passed + 1)); echo "ok      $name (${took} s)" ;;
    77) skipped=$((skipped + 1)); echo "skipped $name: $(tail -n 1 "$home/log")" ;;
    *) failed=$((failed + 1)); echo "FAILED  $name (exit $rc, ${took} s)"; sed 's/^/    /' "$home/log" | tail -n 60 ;;
    esac
    rm -rf "$home"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
