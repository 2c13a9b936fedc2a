#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_house.sh [--write] - docs/HOUSE.md lists every file with the line that its first comment gives it
#
# The lists stand between "<!-- files of FOLDER -->" and "<!-- end -->". With
# --write they are drawn anew, without it a difference fails.
set -eu
page=docs/HOUSE.md

# One row per noun: the header's line where there is one, else the source's.
row() {
    line=$(sed -n '2s/^\/\* [^ ]* - //p' "$1" | sed 's/ *\*\/$//')
    [ -n "$line" ] || line=$(sed -n '3s/^# [^ ]* - //p' "$1")
    [ -n "$line" ] || { echo "$1: its second line does not say what it is" >&2; exit 1; }
    echo "| \`$2\` | $line |"
}
draw() {
    echo '| file | one line |'
    echo '|---|---|'
    for noun in $(ls "$1" | sed -n 's/\.[ch]$//p; s/\.cuh\{0,1\}$/:cu/p' | sort -u); do
        if [ "$noun" != "${noun%:cu}" ]; then
            noun=${noun%:cu}
            [ ! -f "$1/$noun.cuh" ] || row "$1/$noun.cuh" "$noun.cuh"
            [ ! -f "$1/$noun.cu" ] || row "$1/$noun.cu" "$noun.cu"
        elif [ -f "$1/$noun.h" ]; then
            row "$1/$noun.h" "$noun$([ -f "$1/$noun.c" ] || echo .h)"
        else
            row "$1/$noun.c" "$noun.c"
        fi
    done
}
new=$(mktemp)
trap 'rm -f "$new"' EXIT
skip=
while IFS= read -r line; do
    case $line in
    '<!-- files of '*)
        printf '%s\n' "$line"
        folder=${line#<!-- files of }
        draw "${folder% -->}" || exit 1
        skip=1 ;;
    '<!-- end -->') skip= ; printf '%s\n' "$line" ;;
    *) [ -n "$skip" ] || printf '%s\n' "$line" ;;
    esac
done <$page >"$new"
if [ "${1:-}" = --write ]; then
    cat "$new" >$page
elif ! cmp -s "$new" $page; then
    diff -u $page "$new" | head -n 20 >&2 || true
    echo "$page is not what the files say: tests/check_house.sh --write draws it anew" >&2
    exit 1
fi
