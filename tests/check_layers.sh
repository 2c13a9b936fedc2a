#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_layers.sh ROOT [FOLDER...] - includes point down: between rooms, and between top-level folders
#
# The rooms, their order and what each may include are in ROOT/tests/rooms.txt.  FOLDERs are those that are
# built: what has sources must be a room, and a room must have sources.  A rule that permits or forbids nothing
# is an error, and so is a room of too many nouns (.c with .h).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
shift
[ $# -gt 0 ] || set -- $(awk '$1 == "room" { sub(/\/.*/, "", $2); print $2 }' tests/rooms.txt | sort -u)
sources=$(find "$@" -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' | sort)
[ -n "$sources" ] || { echo "found no sources in $*: nothing was checked" >&2; exit 1; }
bad=0
# shellcheck disable=SC2086
awk "$(cat "$here/rooms.awk")"'
BEGIN {
    MOST = 30
    read_rooms("tests/rooms.txt")
    for (i = 1; i < ARGC; i++) note_file(ARGV[i])
}
function note_file(path,   at) {
    at = folder_of(path)
    if (!(at in rank)) { if (!lost[at]++) fail(at "/ has sources and is in no list: see tests/rooms.txt") }
    else filled[at] = 1
    if (path ~ /\.c$/) source[stem_of(path)] = 1
    if (path ~ /\.h$/) header[stem_of(path)] = 1
}
FNR == 1 { at = folder_of(FILENAME) }
/^[ \t]*#[ \t]*include[ \t]*"/ && at in rank { split($0, part, "\""); include(part[2]) }
/^[ \t]*#[ \t]*include[ \t]*<(cuda|cublas|nccl|nvml)/ && top_of(at) != "kernels" {
    fail(FILENAME " may not include a header of CUDA or NCCL: see kernels/cuda.h, engine/dist/nccl.h")
}
function include(path,   to, why) {
    includes++
    to = folder_of(path)
    if (to == "") { fail(FILENAME " includes \"" path "\" without its folder"); return }
    if (!(to in rank)) { if (!lost[to]++) fail(FILENAME " may not include " path ": " to "/ is no room"); return }
    why = forbidden(at, to)
    if (why == "" && top_of(to) != top_of(at)) why = contract(path)
    if (why != "") fail(FILENAME " may not include " path ": " why)
    if (path in only) reserved(path)
}
function contract(path,   entry) {
    entry = permit(at, path)
    used["uses", at " " entry] = 1
    return entry == "" ? "tests/rooms.txt does not permit it" : ""
}
function reserved(path) {
    if (index(" " only[path] " ", " " FILENAME " ")) used["only", path " " FILENAME] = 1
    else fail(FILENAME " may not include " path ": only some files may, see tests/rooms.txt")
}
function check_rules(   i, at, n, word, j) {
    for (i = 1; i <= rooms; i++) {
        if (!(room[i] in filled)) fail("tests/rooms.txt: room " room[i] " has no sources")
        n = split(uses[room[i]], word)
        for (j = 1; j <= n; j++) rule[room[i] " " word[j]] = 1
    }
    for (at in only) { n = split(only[at], word); for (j = 1; j <= n; j++) key[at " " word[j]] = 1 }
    all_used("uses", rule, "permits nothing: nobody includes it")
    all_used("only", key, "permits nothing: it does not include it")
}
function check_sizes(   stem, at) {
    for (stem in source) if (stem in header) nouns[folder_of(stem)]++
    for (at in nouns) if (nouns[at] > MOST) {
        used["crowded", at] = 1
        if (!(at in crowded)) fail(at "/ has " nouns[at] " nouns, which is more than " MOST ": make rooms of it")
    }
    all_used("crowded", crowded, "is no exception any more")
}
END { some(includes, "includes"); check_rules(); check_sizes(); exit bad }' $sources || bad=1
# One SPDX line per source file.
# shellcheck disable=SC2046
awk 'BEGIN {
    for (i = 1; i < ARGC; i++) {
        known = 0
        for (n = 0; n < 3 && (getline line < ARGV[i]) > 0; n++) if (line ~ /SPDX-License-Identifier:/) known = 1
        close(ARGV[i])
        if (!known) { print ARGV[i] " has no SPDX line" > "/dev/stderr"; bad = 1 }
    }
    exit bad
}' $(find $(ls -d "$@" tests deploy 2>/dev/null) -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cc' \
    -o -name '*.sh' -o -name '*.awk' -o -name '*.py') || bad=1
exit $bad
