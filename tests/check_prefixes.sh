#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_prefixes.sh ROOT OBJDIR OBJECT... - a prefix belongs to one noun of the whole house, a name to one object
#
# A noun is a file name.  A function that begins with a noun and an underscore is defined in that noun's files:
# remote_link_close() in link.c or link_part.c, and in one folder only.  Of several nouns that fit, the longest counts;
# a part without its own header (plan_gpus.c) counts as the noun it is a part of (plan).  Tests link all
# libraries together.  Exceptions are in ROOT/tests/rooms.txt, and one that is not needed any more is an error.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$1 objects=$2
shift 2
[ $# -gt 0 ] || { echo "found no objects: nothing was checked" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
nm -A -P "$@" | sed "s|^$objects/||" >"$work/symbols"
cd "$root"
find $(awk '$1 == "room" { sub(/\/.*/, "", $2); print $2 }' tests/rooms.txt | sort -u) -name '*.[ch]' | sort >"$work/files"
awk "$(cat "$here/rooms.awk")"'
BEGIN { read_rooms("tests/rooms.txt") }
pass == 1 && !(folder_of($0) in program) && noun_of($0) != "main" {
    noun[noun_of($0)] = 1
    same = top_of($0) "/" name_of($0)
    if (same in place) fail(place[same] " and " $0 " have one name")
    place[same] = $0
    if (/\.h$/) header[top_of($0), noun_of($0)] = 1
}
pass == 2 && $3 ~ /^[TDBRC]$/ && $2 !~ /^__/ {
    sub(/:$/, "", $1)
    symbols++
    if (($2) in home && home[$2] != $1) defined_twice($2, home[$2], $1)
    home[$2] = $1
    owner = noun_of($1) == $2 ? "" : longest($2)
    if (owner != "") own(owner, $2, stem_of($1))
}
function defined_twice(symbol, one, other) {
    used["twice", symbol] = 1
    if (!(symbol in twice)) fail(symbol "() is defined in " one " and in " other)
}
# Of "a_b_c": a_b, or a, or nothing.
function longest(symbol) {
    while (sub(/_[^_]*$/, "", symbol)) if (symbol in noun) return symbol
    return ""
}
function head(top, name,   short) {
    if ((top, name) in header) return name
    for (short = name; sub(/_[^_]*$/, "", short); ) if ((top, short) in header) return short
    return name
}
function own(owner, symbol, file,   top, name) {
    top = top_of(file); name = noun_of(file)
    if (name != owner && index(name, owner "_") != 1 && head(top, name) != head(top, owner))
        refuse(owner "_", symbol "() is defined in " file ".c, but " owner "_ is the prefix of " owner ".c")
    else if (!(owner in where)) where[owner] = file
    else if (top_of(where[owner]) != top)
        refuse(owner "_", owner "_ is the prefix of " where[owner] ".c and of " file ".c")
}
function refuse(what, text) {
    used["prefix", what] = 1
    if (!(what in prefix) && !told[text]++) fail(text)
}
END {
    some(symbols, "symbols")
    all_used("twice", twice, "is no exception any more")
    all_used("prefix", prefix, "is no exception any more")
    exit bad
}' pass=1 "$work/files" pass=2 "$work/symbols"
