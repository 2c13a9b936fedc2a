#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_json.sh ROOT OBJDIR OBJECT... - text becomes JSON in one place, whatever its encoding
#
# json_pack(), json_string() and so on make no value of text that is not UTF-8: an event of the agent would be lost
# without an error. engine/base/json_text.h and json_make.h make one of any text. Where such text must be refused,
# because it is a name or a value to be used, json_string() is right, and ROOT/tests/rooms.txt says so (exact PATH REASON).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$1
cd "$root"
objects=$2
shift 2
nm -A -P "$@" | sed "s|^$objects/||; s/\.o: / /" | awk "$(cat "$here/rooms.awk")"'
BEGIN {
    read_rooms("tests/rooms.txt")
    words_into(exactly, "json_string json_stringn json_string_set json_string_setn")
}
{ symbols++ }
$3 == "U" && $2 ~ /^json_(v?pack(_ex)?|v?sprintf)$/ { fail($1 ".c calls " $2 "(): use json_make() or json_text_f()") }
$3 == "U" && $2 in exactly {
    path = $1 ".c"
    if (path in exact) used["exact", path] = 1
    else fail(path " calls " $2 "(): use json_text(), or say in tests/rooms.txt why other text than UTF-8 is refused")
}
END {
    some(symbols, "symbols")
    all_used("exact", exact, "is no exception any more")
    exit bad
}'
