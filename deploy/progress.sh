# SPDX-License-Identifier: Apache-2.0
# progress.sh - how far a long command is, for the scripts that source this file

# progress WORD TOTAL PATTERN - stdin is a command's output: count the lines that match PATTERN, of TOTAL, and print the
# others.  On a terminal the count is one line that is redrawn; elsewhere it is a line per tenth.  PATTERN has a group: what
# is being done.  (Not in awk: Debian's reads pipes by 4 KB.)
progress() {
    local word=$1 total=$2 pattern=$3 n=0 line clear='' terminal=''
    [ ! -t 1 ] || terminal=1
    while IFS= read -r line; do
        if ! [[ $line =~ $pattern ]]; then
            printf '%s%s\n' "$clear" "$line"
            clear=
            continue
        fi
        n=$((n + 1))
        [ $n -le "$total" ] || total=$n
        if [ -n "$terminal" ]; then
            clear=$'\r\033[K'
            printf '%s  %s %d of %d: %.50s' "$clear" "$word" $n "$total" "${BASH_REMATCH[1]}"
        elif [ $n = 1 ] || [ $n = "$total" ] || [ $((10 * n / total)) -gt $((10 * (n - 1) / total)) ]; then
            echo "  $word $n of $total"
        fi
    done
    [ -z "$clear" ] || echo
}
