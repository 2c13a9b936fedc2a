#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# leftover.sh HOME - stop the daemon of this test, then list processes that still have HOME in
# their environment, or a file below it in their arguments, as sshd has (one "pid command" a line).  Ends only these.
. "$(dirname "$0")/wait.sh"
home=$1
mark="JOBCTL_HOME=$home/state"
ours() {
    for d in /proc/[0-9]*; do
        [ "${d#/proc/}" != "$$" ] || continue
        { tr '\0' '\n' <"$d/environ"; } 2>/dev/null | grep -qxF "$mark" ||
            { tr '\0' '\n' <"$d/cmdline"; } 2>/dev/null | grep -qF "$home/" || continue
        case $(sed -n 's/^State:\t\(.\).*/\1/p' "$d/status" 2>/dev/null) in Z | '') continue ;; esac
        echo "${d#/proc/} $({ tr '\0' ' ' <"$d/cmdline"; } 2>/dev/null)"
    done
}
# The daemon lives on by design: ask it to end, and wait for that.
ours | while read -r pid cmd; do
    case $cmd in *jobctl\ daemon*) kill -TERM "$pid" 2>/dev/null ;; esac
done
none() { [ -z "$(ours)" ]; }
wait_for 20 "all of them end" none 2>/dev/null && exit 0
left=$(ours)
printf '%s\n' "$left"
while read -r pid _; do
    [ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null
done <<<"$left"
