#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run_units.sh TEST... - runs cmocka programs, as many at once as there are processors; prints one line each, and the
# whole output of a failing one
#
# Each runs from the top of the tree.  cmocka's own closing lines follow, so
# that a reader of the log sees how many tests ran.  Of at most three that failed each is run once more, alone: one that
# passes then is named "unsteady", and fails the run only with TEST_STRICT=1 (make soak, make tsan). A program that leaves
# a file in its $TMPDIR has failed.
set -u
export JOBCTL_MACHINE_DIR=none # tests do not wait for each other's CPU slots
running=0 most=$(nproc) failed=$(mktemp) bad=0
trap 'rm -f "$failed"' EXIT
one() {
    local code=0 place
    place=$(mktemp -d "${TMPDIR:-/tmp}/unit.XXXXXX") && chmod 1777 "$place" || return # tests may become other users
    TMPDIR=$place "$1" >"$1.log" 2>&1 || code=$?
    if [ $code = 0 ] && [ -n "$(ls -A "$place")" ]; then
        printf 'It left files behind:\n%s\n' "$(cd "$place" && find . -mindepth 1)" >>"$1.log"
        code=1
    fi
    rm -rf "$place"
    if [ $code = 0 ]; then
        grep -a '^\[  PASSED  \]' "$1.log" | sed "s|\$| $(basename "$1")|"
    else
        printf 'FAILED %s (exit %d)\n%s\n' "$(basename "$1")" $code "$(cat "$1.log")"
        echo "$1" >>"$failed"
    fi
    return $code
}
for t in "$@"; do
    if [ $running -ge "$most" ]; then
        wait -n
        running=$((running - 1))
    fi
    one "$t" &
    running=$((running + 1))
done
wait
mapfile -t again <"$failed"
for t in ${again[@]+"${again[@]}"}; do
    if [ "${TEST_STRICT:-0}" = 0 ] && [ ${#again[@]} -le 3 ] && one "$t"; then
        echo "unsteady $(basename "$t"): passed alone, at its second try"
    else
        bad=1
    fi
done
exit $bad
