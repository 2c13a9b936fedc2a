#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run_units.sh TEST... - run cmocka programs; print one line each, and all of a failing one
#
# Each runs from the top of the tree.  cmocka's own closing lines follow, so
# that a reader of the log sees how many tests ran.
set -u
bad=0
for t in "$@"; do
    if "$t" >"$t.log" 2>&1; then
        grep -a '^\[  PASSED  \]' "$t.log" | sed "s|\$| $(basename "$t")|"
    else
        echo "FAILED $(basename "$t") (exit $?)"
        cat "$t.log"
        bad=1
    fi
done
exit $bad
