#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run_units.sh TEST... - run cmocka programs, as many at once as there are processors; print one
# line each, and all of a failing one
#
# Each runs from the top of the tree.  cmocka's own closing lines follow, so
# that a reader of the log sees how many tests ran.
set -u
bad=0 running=0 most=$(nproc)
one() {
    local code=0
    "$1" >"$1.log" 2>&1 || code=$?
    if [ $code = 0 ]; then
        grep -a '^\[  PASSED  \]' "$1.log" | sed "s|\$| $(basename "$1")|"
    else
        printf 'FAILED %s (exit %d)\n%s\n' "$(basename "$1")" $code "$(cat "$1.log")"
    fi
    return $code
}
for t in "$@"; do
    if [ $running -ge "$most" ]; then
        wait -n || bad=1
        running=$((running - 1))
    fi
    one "$t" &
    running=$((running + 1))
done
while [ $running -gt 0 ]; do
    wait -n || bad=1
    running=$((running - 1))
done
exit $bad
