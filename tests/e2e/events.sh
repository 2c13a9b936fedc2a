# SPDX-License-Identifier: Apache-2.0
# events.sh - wait for what jobs do: . "$TOP/tests/e2e/events.sh"

# await JOB PATTERN: until an event of the job has it; prints the newest such event
await() {
    for _ in $(seq 600); do
        found=$(jobctl events "$1" --json | sed 's/{"seq":/\n&/g' | grep -e "$2" | tail -n 1)
        [ -z "$found" ] || { echo "$found"; return; }
        sleep 0.05
    done
    echo "no event with $2" >&2
    jobctl events "$1" >&2
    return 1
}
# field NAME: its value, a number or text, in the event on stdin
field() { sed -n "s/.*\"$1\":\[*\"*\([^],\"}]*\).*/\1/p"; }
# flight JOB RANK: its page
flight() { jobctl-agent flight "$JOBCTL_HOME/jobs/$1/1/rank$2.flight" 2>/dev/null || true; }
# rank_pid JOB RANK
rank_pid() { flight "$1" "$2" | sed -n 's/.*, pid \([0-9]*\).*/\1/p'; }
# until_step JOB N [GENERATION]: rank 0 has done N steps in it
until_step() {
    for _ in $(seq 1200); do
        page=$(flight "$1" 0)
        n=$(echo "$page" | awk '$1 == "step" && $3 == "p50" { print $2 }')
        case $page in *"generation ${3:-1}, pid"*) [ "${n:-0}" -lt "$2" ] || return 0 ;; esac
        sleep 0.02
    done
    echo "no step $2 of job $1:" >&2
    echo "$page" >&2
    return 1
}
# show_ms JOB: the median time of a step
show_ms() { flight "$1" 0 | awk '$1 == "step" && $3 == "p50" { print $5 }'; }
