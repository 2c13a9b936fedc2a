#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_pure.sh ROOT OBJDIR - the pure cores call no clock, no I/O, no event loop, no store, and keep no state
#
# A decision must be replayable, so its object may reference only what depends on arguments alone: other pure
# files, the functions of LIBRARY below, and what ROOT/tests/rooms.txt says that they borrow.  Nor may it have
# variables.  A file is pure if its header (or the source, where there is none) has MARK as a line of its first
# comment; rooms.txt lists the same nouns, so that neither is lost alone.  A part of a pure noun (plan_user.c of
# plan) is pure as well, or has an exception there.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$1
objects=$(cd "$2" && pwd)
cd "$root"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck disable=SC2046
find $(awk '$1 == "room" { sub(/\/.*/, "", $2); print $2 }' tests/rooms.txt | sort -u) -name '*.[ch]' | sort >"$work/files"

# Which files are pure, as PATH without suffix.
awk -v list="$work/pure" "$(cat "$here/rooms.awk")"'
BEGIN {
    MARK = " * Pure: no clock, no I/O."
    read_rooms("tests/rooms.txt")
    printf "" > list
    while ((getline path < ARGV[1]) > 0) read_comment(path)
    for (path in file) judge(path)
    for (name in pure) if (!(name in marked)) fail("tests/rooms.txt: " name " is listed as pure, but no first comment says \"" substr(MARK, 4) "\"")
    some(found, "pure files")
    all_used("impure", impure, "is no exception any more")
    exit bad
}
function read_comment(path,   line, inside, stem) {
    stem = stem_of(path)
    file[stem] = 1
    if (path ~ /\.c$/) source[stem] = 1
    if (path ~ /\.h$/) header[stem] = 1
    while ((getline line < path) > 0) {
        if (line ~ /SPDX-License-Identifier/) continue
        if (line ~ /^\/\*/) inside = 1
        if (!inside) break
        if (line == MARK) says[path] = 1
        else if (line ~ /(^|[ *])Pure[.:,]/) nearly[path] = 1
        if (line ~ /\*\//) break
    }
    close(path)
}
function judge(stem,   path, name, whole) {
    path = stem ((stem in header) ? ".h" : ".c")
    name = noun_of(stem)
    if (path in says) { accept(path, stem, name); return }
    if (path in nearly) fail(path " speaks of being pure, but has no line \"" substr(MARK, 4) "\"")
    if (stem in header) return
    for (whole = stem; sub(/_[^_\/]*$/, "", whole); ) if (whole ".h" in says) {
        if (name in impure) used["impure", name] = 1
        else fail(path " is a part of " whole ".h, which is pure, but has no line \"" substr(MARK, 4) "\"")
        return
    }
}
function accept(path, stem, name) {
    found++
    if (marked[name]++) fail(path ": there are two pure files named " name)
    if (!(name in pure)) fail(path " is pure, but tests/rooms.txt does not list it")
    if (stem in source) print stem > list
    else fail(path " is pure, but there is no " stem ".c to look into")
}' "$work/files" || exit 1

while read -r stem; do
    [ -f "$objects/$stem.o" ] || { echo "$stem.c is pure, but has no object: it was not checked" >&2; exit 1; }
done <"$work/pure"
# shellcheck disable=SC2046
(cd "$objects" && nm -A -P $(sed 's/$/.o/' "$work/pure")) | sed 's/\.o: / /' >"$work/symbols"

awk "$(cat "$here/rooms.awk")"'
BEGIN {
    read_rooms("tests/rooms.txt")
    words_into(library, "abort bcmp bsearch calloc free malloc qsort qsort_r realloc errno_location ctype_b_loc stack_chk_fail")
    words_into(library, "ctype_tolower_loc ctype_toupper_loc tolower toupper assert_fail snprintf vsnprintf sscanf")
    words_into(library, "memchr memcmp memcpy memmem memmove memset mempcpy memrchr stpcpy strcasecmp strcasestr strchr strchrnul")
    words_into(library, "strcmp strcpy strcspn strdup strlen strncasecmp strncmp strndup strnlen strpbrk strrchr strsep")
    words_into(library, "fnmatch strspn strstr strtod strtok_r strtol strtoll strtoul strtoull rawmemchr")
    words_into(library, "popcountdi2 cbrt ceil cos exp exp2 expm1 fabs floor fmax fmin fmod ldexp log log10 log1p log2 lround llround")
    words_into(library, "pow rint round sin sqrt tanh trunc regcomp regexec regfree inet_ntop inet_pton")
    words_into(library, "EVP_DecodeBlock EVP_EncodeBlock")
}
# The names that compilers and C libraries give the same functions: __isoc99_sscanf, __snprintf_chk.
function plain(name) { sub(/@.*/, "", name); sub(/^__isoc[0-9]+_/, "", name); sub(/_chk$/, "", name); sub(/^__(builtin_)?/, "", name); return name }
function harmless(name) {
    if (plain(name) in library) return 1
    if (name ~ /^_GLOBAL_OFFSET_TABLE_$|^__(asan|ubsan|odr_asan|sanitizer)_/) return 1
    return name ~ /^json_/ && name !~ /^json_(load_file|loadf|loadfd|load_callback|dump_file|dumpf|dumpfd|dump_callback|object_seed|set_alloc)/
}
$3 ~ /^[TDBRC]$/ { home[$2] = $1; symbols++ }
$3 ~ /^[bBC]$/ && $2 !~ /^(__|\.)/ { keeps[$1] = keeps[$1] " " $2 }
$3 == "U" { needs[$1, $2] = $2 }
END {
    some(symbols, "symbols")
    for (pair in needs) {
        name = needs[pair]
        if (name in home || harmless(name)) continue
        if (name in borrows) { used["borrows", name] = 1; continue }
        split(pair, part, SUBSEP)
        fail(part[1] ".c is not pure: it calls " name "()")
    }
    for (stem in keeps) {
        used["cache", noun_of(stem)] = 1
        if (!(noun_of(stem) in cache)) fail(stem ".c is not pure: it keeps" keeps[stem] " between calls")
    }
    all_used("borrows", borrows, "is called by no pure file")
    all_used("cache", cache, "is no exception any more")
    exit bad
}' "$work/symbols"
