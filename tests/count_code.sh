#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# count_code.sh [BOUND] - counts the lines of code of each top-level folder; fails above BOUND
#
# A line of code is one that is not empty without its comments, in .c, .h, .cu, .cuh and .sql.
set -eu
find $(awk '$1 == "room" { sub(/\/.*/, "", $2); print $2 }' tests/rooms.txt | sort -u) -type f \
    '(' -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.sql' ')' | LC_ALL=C sort | xargs awk -v bound="${1:-0}" '
FNR == 1 { comment = 0; top = FILENAME; sub(/\/.*/, "", top) }
{
    left = $0; code = ""
    while (left != "")
        if (comment) {
            at = index(left, "*/")
            comment = !at
            left = at ? substr(left, at + 2) : ""
        } else if (match(left, /"([^"\\]|\\.)*"|\/\*|\/\//)) {
            word = substr(left, RSTART, RLENGTH)
            code = code substr(left, 1, RSTART - 1)
            left = word == "//" ? "" : substr(left, RSTART + RLENGTH)
            if (word == "/*") comment = 1
            else if (word != "//") code = code word
        } else {
            code = code left
            left = ""
        }
    if (FILENAME ~ /\.sql$/) sub(/--.*/, "", code)
    if (code ~ /[^ \t]/) { lines[top]++; total++ }
}
END {
    for (top in lines) text = text ", " top " " lines[top]
    print "  lines of code: " total+0 text
    if (bound > 0 && total > bound) {
        print "more than the " bound " that tests/rooms.txt permits: delete, or raise its line \"code\" with a reason in the commit" >"/dev/stderr"
        exit 1
    }
}'
