#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check_docs.sh ROOT BIN - every path, link, command and make target that *.md and docs/*.md name exists
#
# Commands are asked for their help, so BIN must be built.
set -eu
bin=$(cd "$2" && pwd)
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: >"$work/code"; : >"$work/links"; : >"$work/heads"
pages=$(ls ./*.md docs/*.md | sed 's|^\./||')
bad=0
fail() { echo "$1" >&2; bad=1; }
some() { [ -s "$work/$1" ] || fail "check_docs.sh: found no $1: nothing was checked"; }

# Lines "PAGE<tab>TEXT".  code: code spans and blocks; links: targets of links.
awk -v code="$work/code" -v links="$work/links" -v heads="$work/heads" '
FNR == 1 { fence = 0 }
/^```/ { fence = !fence; next }
fence { next }
/^    / { print FILENAME "\t" $0 >code; next }
/^#+ / { print FILENAME "\t" slug($0) >heads }
{ spans($0); targets($0) }
function spans(line,   n, part, i) {
    n = split(line, part, "`")
    for (i = 2; i <= n; i += 2) print FILENAME "\t" part[i] >code
}
function targets(line) {
    while (match(line, /\]\([^)]+\)/)) {
        print FILENAME "\t" substr(line, RSTART + 2, RLENGTH - 3) >links
        line = substr(line, RSTART + RLENGTH)
    }
}
# The anchor that a heading gets: lower case, no punctuation, a hyphen for each space.
function slug(line) {
    sub(/^#+ /, "", line)
    line = tolower(line)
    gsub(/[^a-z0-9 _\200-\377-]/, "", line)
    gsub(/ /, "-", line)
    return line
}' $pages
for kind in code links heads; do some $kind; done

while IFS=$'\t' read -r page to; do
    case $to in http*) continue ;; esac
    file=${to%%#*}
    [ -z "$file" ] || [ -e "$(dirname "$page")/$file" ] || fail "$page: the link to $to leads nowhere"
    case $to in *'#'*)
        at=$page
        [ -z "$file" ] || at=$(realpath -m --relative-to=. "$(dirname "$page")/$file")
        grep -qxF "$at	${to#*#}" "$work/heads" || fail "$page: no heading of $at is #${to#*#}" ;;
    esac
done <"$work/links"

# The Chinese README has the commands and links of the English one.
chinese=README.zh-CN.md
commands() { sed -n 's/^    //p' "$1" | sed 's/ *#.*//' | grep .; }
targets() { awk -F '\t' -v page="$1" '$1 == page && $2 !~ /^#|README|zh-CN/ { print $2 }' "$work/links" | LC_ALL=C sort -u; }
if [ -e $chinese ]; then
    for part in commands targets; do
        diff -u <($part README.md) <($part $chinese) || fail "$chinese: its $part are not those of README.md"
    done
fi

# Paths below our folders: a file, a folder, a pattern, or a noun (agent/plan/plan for plan.h).
top='agent|controller|engine|kernels|db|templates|tests|deploy|docs'
awk -F '\t' -v top="^($top)/" '{
    n = split($2, word, /[^A-Za-z0-9_.\/*-]+/)
    for (i = 1; i <= n; i++) if (word[i] ~ top) { sub(/[.\/]+$/, "", word[i]); print $1 "\t" word[i] }
}' "$work/code" | sort -u >"$work/paths"
some paths
while IFS=$'\t' read -r page path; do
    compgen -G "$path" >/dev/null || compgen -G "$path.[ch]" >/dev/null || fail "$page: there is no $path"
done <"$work/paths"
grep -oE '[^/a-z_]test_[a-z_]+\.c' "$work/code" | sed 's/.*test_/test_/' | sort -u >"$work/tests" || :
while read -r name; do
    [ -n "$(find tests -name "$name")" ] || fail "there is no unit test $name: $(grep -lF "$name" $pages | tr '\n' ' ')"
done <"$work/tests"

# Test functions in brackets behind their file, (one_name, another_name).
grep -hv '^    ' $pages | tr '\n' ' ' | grep -oE '\([a-z]+_[a-z_]+(, +[a-z]+_[a-z_]+)*\)' | tr -s '(), ' '\n' |
    sort -u | sed '/^$/d' >"$work/functions"
some functions
while read -r name; do
    grep -rqE --include="test_*.c" "^static void $name\(" tests || fail "no unit test has a function $name: $(grep -lF "$name" $pages | tr '\n' ' ')"
done <"$work/functions"

# Commands with their options, up to the next one of the line.  jobctl-train and jobctl-agent have one help for all
# commands; their options stand in tables of their sources.
sed -E 's/#.*//' "$work/code" | sed -E 's/\$\(|[|;&]|  +/\n&/g' | awk -F '\t' '
    NF > 1 { page = $1; text = $2 } NF == 1 { text = $1 }
    match(text, /(^|[ (=\/])jobctl(-train|-agent)? [a-z][a-z-]+( |$)/) { print page "\t" substr(text, RSTART) }' |
    sed -E 's/\t[ (=\/]*/\t/' | sort -u >"$work/commands"
some commands
for program in jobctl-train jobctl-agent; do "$bin/$program" help >"$work/$program"; done
while IFS=$'\t' read -r page line; do
    set -f; set -- $line; set +f
    program=$1 name=$2
    shift 2
    if [ "$program" = jobctl ]; then
        help=$work/jobctl-$name.help
        [ -s "$help" ] || "$bin/jobctl" help "$name" >"$help" 2>&1 || :
        grep -q '^jobctl ' "$help" || { fail "$page: there is no command jobctl $name"; continue; }
    else
        help=$work/$program
        grep -qE "$program $name( |$)" "$help" || { fail "$page: there is no command $program $name"; continue; }
    fi
    for word in "$@"; do
        case $word in --[a-z]*)
            word=$(sed -E 's/^(--[a-z-]+).*/\1/' <<<"$word")
            grep -qE -e "$word([^a-z-]|$)" "$help" || { [ "$program" != jobctl ] &&
                grep -qF -e "\"$word\"" -e "\"${word#--}\"" engine/cli/*.c agent/main.c; } ||
                fail "$page: $program $name has no option $word" ;;
        esac
    done
done <"$work/commands"

# What TROUBLESHOOTING.md quotes in the first column is what the programs print, part by part between its "…"s.
if [ -e docs/TROUBLESHOOTING.md ]; then
    find $(ls -d controller agent engine kernels db 2>/dev/null) -name '*.c' -exec cat {} + | tr '\n' '\1' |
        sed 's/" *\x01 *"//g; s/\\"/"/g' | tr '\1' '\n' >"$work/sources"
    sed -nE 's/^\| `([^`]+)` \|.*/\1/p' docs/TROUBLESHOOTING.md | sed 's/…/\n/g' | sed 's/^ *//; s/ *$//' | grep -E '[a-z].{5}' >"$work/quotes"
    some quotes
    while IFS= read -r part; do
        grep -qF -e "$part" "$work/sources" || fail "docs/TROUBLESHOOTING.md: no program prints: $part"
    done <"$work/quotes"
fi

grep -oE '(^|[^a-z])make [a-z][a-z-]+' "$work/code" | sed 's/.*make //' | sort -u >"$work/targets"
some targets
while read -r target; do
    grep -qsE "^([a-z-]+ )*$target( [a-z-]+)*:" Makefile tests/tests.mk || fail "the Makefile has no target $target: $(grep -l "make $target" $pages | tr '\n' ' ')"
done <"$work/targets"
exit $bad
