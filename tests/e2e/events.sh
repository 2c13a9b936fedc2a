# SPDX-License-Identifier: Apache-2.0
# events.sh - waits for events of jobs' ranks: . "$TOP/tests/e2e/events.sh"
. "$TOP/tests/e2e/wait.sh"

# flight JOB RANK: its page
flight() { jobctl-agent flight "$JOBCTL_HOME/jobs/$1/1/rank$2.flight" 2>/dev/null || true; }
# rank_pid JOB RANK
rank_pid() { flight "$1" "$2" | sed -n 's/.*, pid \([0-9]*\).*/\1/p'; }
# until_step JOB N [GENERATION]: rank 0 has done N steps in it
until_step() { wait_for "job $1 has done step $2 in generation ${3:-1}" has_step "$1" "$2" "${3:-1}"; }
has_step() {
    flight "$1" 0 | awk -v n="$2" -v of="generation $3, pid" '{ print }
        index($0, of) { here = 1 }
        $1 == "step" && $3 == "p50" { done = $2 }
        END { exit !(here && done + 0 >= n) }'
}
# show_ms JOB: the median time of a step
show_ms() { flight "$1" 0 | awk '$1 == "step" && $3 == "p50" { print $5 }'; }
# stopped PID: it stands still, by SIGSTOP
stopped() { grep -q '^State:.T' "/proc/$1/status"; }
# held PID PAGE...: it stands still, as TRAIN_TEST_STOP=GENERATION:RANK:STEP,... in its environment says, and the ranks
# of these pages wait for it. Nothing goes on from here, however long the test takes; sets $at, the step of the first.
held() {
    local page
    wait_for "process $1 stops itself" stopped "$1"
    for page in "${@:2}"; do
        wait_for "${page##*/} waits for it" matches 'phase [a-z]* for [1-9]' jobctl-agent flight "$page"
    done
    at=$(jobctl-agent flight "$2" | sed -n 's/^step \([0-9]*\).*/\1/p')
}
