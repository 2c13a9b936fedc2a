#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_circles.sh OBJECT... - a folder can be read from the bottom up: none of its files calls itself through others
#
# Who calls whom is read from the objects; where there is a circle, tsort names its files.
set -eu
circle=$(nm -A -P "$@" |
    awk '{ sub(/:$/, "", $1); folder = $1; sub(/[^\/]*$/, "", folder) }
         $3 == "T" { home[folder $2] = $1 }
         $3 == "U" { calls[$1 " " folder $2] }
         END { for (c in calls) { split(c, part, " "); if (part[2] in home) print part[1], home[part[2]] } }' |
    tsort 2>&1 >/dev/null | sed -n 's|^tsort: .*obj/\(.*\)\.o$|\1.c|p')
[ -z "$circle" ] || { printf 'these call each other in a circle:\n%s\n' "$circle" >&2; exit 1; }
