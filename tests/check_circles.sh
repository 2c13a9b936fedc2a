#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_circles.sh ROOT OBJDIR OBJECT... - calls point down: no circle of files, no call to a room above
#
# Who calls whom is read from the objects of all libraries at once; a file is known by its whole path.  Rooms
# and their order are in ROOT/tests/rooms.txt: includes (check_layers.sh) and calls both follow it, so no rooms
# form a circle.  A source without an object is an error, and so are objects without symbols.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$1 objects=$2
shift 2
[ $# -gt 0 ] || { echo "found no objects: nothing was checked" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
nm -A -P "$@" | sed "s|^$objects/||" >"$work/symbols"
cd "$root"
find $(awk '$1 == "room" { sub(/\/.*/, "", $2); print $2 }' tests/rooms.txt | sort -u) -name '*.c' | sort >"$work/sources"
bad=0
awk -v edges="$work/edges" "$(cat "$here/rooms.awk")"'
BEGIN { read_rooms("tests/rooms.txt"); printf "" > edges }
pass == 1 { source[stem_of($0)] = folder_of($0); next }
{ sub(/:$/, "", $1); file = stem_of($1); within = folder_of(file) in program ? folder_of(file) : "" }
pass == 2 { seen[file] = 1 }
pass == 2 && $3 ~ /^[TDBRC]$/ { home[within, $2] = file; kind[within, $2] = $3; symbols++ }
pass == 3 && $3 == "U" {
    at = (within, $2) in home ? within : ""
    if ((at, $2) in home && home[at, $2] != file) use(file, home[at, $2], $2, kind[at, $2])
}
# Files may find each other through tables: those are data.  Rooms may not.
function use(from, to, symbol, kind) {
    uses_seen++
    if (kind == "T") print from, to > edges
    if (!((from, to) in known)) call(from, to, symbol)
    known[from, to] = 1
}
function call(from, to, symbol,   a, b, why) {
    a = folder_of(from); b = folder_of(to)
    if (!(a in rank) || !(b in rank)) return
    why = forbidden(a, b)
    if (why == "" && top_of(a) != top_of(b) && permit(a, b "/") == "") why = "tests/rooms.txt does not permit it"
    if (why != "") fail(from ".c may not use " symbol " of " to ".c: " why)
}
END {
    some(symbols, "symbols"); some(uses_seen, "calls")
    for (file in source) {
        if (noun_of(file) in apart) { used["apart", noun_of(file)] = 1; continue }
        if (noun_of(file) == "main" || source[file] in program) continue
        if (!(file in seen)) fail(file ".c has no object: it was not checked")
    }
    all_used("apart", apart, "is no exception any more")
    exit bad
}' pass=1 "$work/sources" pass=2 "$work/symbols" pass=3 "$work/symbols" || bad=1
circle=$(tsort "$work/edges" 2>&1 >/dev/null | sed -n 's|^tsort: \([^ ]*/[^ ]*\)$|\1.c|p')
[ -z "$circle" ] || { printf 'these call each other in a circle:\n%s\n' "$circle" >&2; bad=1; }
exit $bad
