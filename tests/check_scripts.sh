#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check_scripts.sh [DIR] - refuses lines in the scripts of DIR (tests/) that test nothing, or wait without a message on
# failure
#
# What a job runs (a heredoc, a line with "run: ") is not looked at. Refused is:
#   ! COMMAND              bash -e does not end at a command that is told to fail; say "! COMMAND || exit 1"
#   until ...; do sleep    a loop has the limit of the whole test only, and no message; say wait_for (wait.sh)
#   sleep N                unless a comment on its line tells why it is a time that is wanted, not an event
#   --json | sed           text tools do not read JSON; say `field`, `events_of` (wait.sh) or json.py
set -u
cd "${1:-$(dirname "$0")}" || exit 1
scripts=$(find . -name '*.sh' ! -path ./e2e/wait.sh ! -path './check_*.sh' | sort)
[ -n "$scripts" ] || { echo "check_scripts.sh: no scripts in $PWD: nothing was checked"; exit 1; }
awk '
    function refuse(why) { printf "%s:%d: %s\n    %s\n", FILENAME, FNR, why, $0; bad = 1 }
    FNR == 1 { heredoc = ""; loop = 0 }
    heredoc != "" { if ($0 == heredoc) heredoc = ""; next }
    /^[ \t]*#/ { next }
    {
        line = $0
        comment = match(line, / # ?[^ ]|\t# ?[^ ]/) ? substr(line, RSTART) : ""
        if (comment != "") line = substr(line, 1, RSTART - 1)
        if (match(line, /<<-?[ ]*["\047]?[A-Za-z]+["\047]?/)) {
            heredoc = substr(line, RSTART, RLENGTH)
            gsub(/[^A-Za-z]/, "", heredoc)
        }
    }
    line ~ /run: / { next }
    line ~ /^[ \t]*! / && line !~ /\|\|/ { refuse("this tests nothing: say \"! COMMAND || exit 1\"") }
    { loops = line ~ /(^|[;&|({ \t])(until|while) / && line !~ /(while|until) (read|IFS)/ }
    line ~ /(^|[;&|({ \t])sleep ["$0-9]/ && line !~ /exec sleep|--wrap .*sleep/ {
        if (loops) refuse("a loop that sleeps: say wait_for MESSAGE COMMAND (tests/e2e/wait.sh)")
        else if (comment == "") refuse("a sleep: wait_for an event (tests/e2e/wait.sh), or say in a comment why it is a time")
    }
    line ~ /--json[^|]*\|[^|]*(sed|grep|awk|cut|tr) / || line ~ /sed [^|]*"(pid|pids|step|seq|kind)\\?":.*\.json/ {
        refuse("JSON is read as text: say field or events_of (tests/e2e/wait.sh)")
    }
    END { exit bad }
' $scripts || { echo "check_scripts.sh: see its head for what to say instead"; exit 1; }
