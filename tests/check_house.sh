#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_house.sh [--write|--files] [ROOT] - compares docs/HOUSE.md and docs/rooms.svg with the sources
#
# Between "<!-- rooms -->" and "<!-- end -->" HOUSE.md has a row per room of tests/rooms.txt.  With --write it and the
# picture are drawn anew; without it a difference fails.  --files prints each file of each room with the line that its
# first comment gives it.  README.md must have what deploy/transcript.sh writes into it.  The number of lines of code
# must not exceed the bound in tests/rooms.txt.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
write= list=
[ "${1:-}" != --write ] || { write=1; shift; }
[ "${1:-}" != --files ] || { list=1; shift; }
cd "${1:-$here/..}"
page=docs/HOUSE.md picture=docs/rooms.svg
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
find $(awk '$1 == "room" { sub(/\/.*/, "", $2); print $2 }' tests/rooms.txt | sort -u) \
    -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' | LC_ALL=C sort >"$work/files"

awk "$(cat "$here/rooms.awk")"'
BEGIN { read_rooms("tests/rooms.txt"); printf "" }
{ place[++files] = $0; exists[$0] = 1 }
END { house(); some(files, "files"); exit bad }
# Each top-level folder, and in it: first what stands at its root, then its rooms from below.
function house(   i, top) {
    for (i = 1; i <= rooms; i++) {
        top = top_of(room[i])
        if (!(top in done)) { print "\n" top "/" (top in says ? ": " says[top] : ""); if (top in says) list(top) }
        done[top] = 1
        if (room[i] != top) { print "\n" room[i] "/: " says[room[i]]; list(room[i]) }
    }
}
function list(at,   i) {
    for (i = 1; i <= files; i++) if (folder_of(place[i]) == at) row(place[i])
}
# One row per noun: the line of the header where there is one, else of the source.
function row(path,   whole, other) {
    whole = substr(path, 1, length(path) - 2)
    if (path ~ /\.c$/ && (whole ".h") in exists) return
    other = path ~ /\.h$/ && (whole ".c") in exists
    printf "  %-28s %s\n", other ? noun_of(path) : name_of(path), line_of(path)
}
function line_of(path,   line, name) {
    getline line < path
    getline line < path
    close(path)
    if (line !~ /^\/\* [^ ]+ - ./) { fail(path ": its second line does not say what it is"); return "" }
    name = line; sub(/^\/\* /, "", name); sub(/ .*/, "", name)
    if (name != name_of(path)) fail(path ": its second line says that it is " name)
    sub(/^\/\* [^ ]* - /, "", line); sub(/ *\*\/$/, "", line)
    return line
}' "$work/files" >"$work/list"
if [ -n "$list" ]; then cat "$work/list"; exit; fi
awk -v page="$page" "$(cat "$here/rooms.awk")"'
BEGIN { read_rooms("tests/rooms.txt"); printf "" }
$0 == "<!-- rooms -->" { print; rows(); skip = 1; drawn = 1 }
$0 == "<!-- end -->" { skip = 0 }
!skip { print }
END { if (!drawn) fail(page " has no line <!-- rooms -->"); exit bad }
function rows(   i) {
    print "\n| room | contents |\n|---|---|"
    for (i = 1; i <= rooms; i++) print "| `" room[i] "/` | " says[room[i]] " |"
    print ""
}' "$page" >"$work/page"
"$here/draw_rooms.sh" . >"$work/picture"

bad=0
compare() {
    if [ -n "$write" ]; then cp "$1" "$2"
    elif ! cmp -s "$1" "$2"; then
        diff -u "$2" "$1" | head -n 20 >&2 || true
        echo "$2 is not what the files say: tests/check_house.sh --write draws it anew" >&2
        bad=1
    fi
}
compare "$work/page" "$page"
compare "$work/picture" "$picture"
for mark in transcript drill; do
    awk -v mark="<!-- $mark -->" '$0 == mark { on = 1 } on && /^    [$] / { found = 1 } $0 == "<!-- end -->" { on = 0 }
        END { exit !found }' README.md ||
        { echo "README.md has no session after <!-- $mark -->: run deploy/transcript.sh" >&2; bad=1; }
done
# shellcheck disable=SC2046
"$here/count_code.sh" $(awk '$1 == "code" { print $2 }' tests/rooms.txt) || bad=1
exit $bad
