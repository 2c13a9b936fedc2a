# SPDX-License-Identifier: Apache-2.0
# wait.sh - waits for an event with a time limit, and reads JSON: . "$TOP/tests/e2e/wait.sh"
#
# The only place where a loop sleeps until a condition holds; tests/check_scripts.sh refuses others.  On a slow
# machine set TEST_PATIENCE: every limit is multiplied by it.

# wait_for [SECONDS] MESSAGE COMMAND...: until COMMAND succeeds, for at most SECONDS (WAIT_S, 60).  If that is
# not enough it fails, and tells MESSAGE, what COMMAND printed last and what each job says of itself.
wait_for() {
    local limit=${WAIT_S:-60} message seen end
    case $1 in *[!0-9]*) ;; *) limit=$1 && shift ;; esac
    message=$1
    shift
    limit=$((limit * ${TEST_PATIENCE:-1})) end=$((SECONDS + limit))
    until seen=$("$@" 2>&1); do
        [ $SECONDS -le $end ] || { wait_failed "not within $limit s: $message" "$seen" "$@" >&2; return 1; }
        sleep "${WAIT_PAUSE_S:-0.02}"
    done
}
wait_failed() { # SENTENCE SEEN COMMAND...
    local job
    printf '%s\nwaited for: %s\nlast seen: %s\n' "$1" "${*:3}" "$(tail -n 20 <<<"$2")"
    [ -S "${JOBCTL_HOME:-}/jobctl.sock" ] || return 0
    timeout 10 jobctl status -a || true
    for job in $(timeout 10 jobctl status -q); do
        timeout 10 jobctl why "$job" || true
    done
}

# says TEXT COMMAND...: it prints TEXT; matches PATTERN COMMAND...: it prints a line like that
says() { "${@:2}" 2>&1 | grep -F -- "$1"; }
matches() { "${@:2}" 2>&1 | grep -e "$1"; }
# alive PID: it runs, and is no zombie; ended PID...: none of them does
alive() { grep -q '^State:.[^ZX]' "/proc/$1/status" 2>/dev/null; }
ended() { local pid; for pid; do ! alive "$pid" || return 1; done; }
# gone PATH: nothing is there
gone() { [ ! -e "$1" ] && [ ! -L "$1" ]; }
# past_step EVENTS N: these progress lines of a rank tell of step N or a later one
past_step() { awk -F '"step":' -v n="$2" '/"ev":"step"/ && $2 + 0 >= n { found = 1; exit } END { exit !found }' "$1"; }

# read_json VERB ...: see json.py
wait_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
read_json() { python3 -IS "$wait_dir/json.py" "$@"; }
# field PATH...: the values in the JSON on standard input, say job.attempt; of an event also those in its body
field() { read_json get "$@"; }
# job_is JOB KEY VALUE: so `jobctl show` tells it; job_has JOB KEY: it is not null
job_field() { jobctl show "$1" --json | field "job.$2"; }
job_is() { [ "$(job_field "$1" "$2")" = "$3" ]; }
job_has() { case $(job_field "$1" "$2") in null | '') return 1 ;; esac; }
# events_of JOB [FILTER...] [PATH...]: a line for each event that passes; none where none does (json.py: each)
events_of() { jobctl logs --events "$1" --json | read_json each "${@:2}" 2>/dev/null || true; }
# last_event JOB [FILTER...] [PATH...]: of the newest event that passes
last_event() { jobctl logs --events "$1" --json | read_json last "${@:2}"; }
# wait_event JOB FILTER...: until an event passes, say kind=rank_started generation=2; prints the newest such one
wait_event() {
    wait_for "an event of job $1 with ${*:2}" last_event "$@" || { jobctl logs --events "$1" >&2; return 1; }
    last_event "$@"
}
# resumes JOB [FILTER...]: its ranks have gone on from a step after the first
resumes() { events_of "$1" kind=rank_started "${@:2}" resume_step | grep '^[1-9]'; }
# agent_pid JOB ATTEMPT [NODE]: of the agent there
agent_pid() { field pid <"$JOBCTL_HOME/jobs/$1/$2${3:+/$3}/agent.json"; }
# daemon_pid: asked by a command, which starts one where none is; daemon_answers: of the one that there is
daemon_pid() { jobctl version --json | field daemon.pid; }
daemon_answers() {
    curl -s --max-time 10 --unix-socket "$JOBCTL_HOME/jobctl.sock" http://jobctl/v1/version | field pid
}
# stop_daemon [SIGNAL]: it has ended, not only closed its socket: the store is nobody's, its -wal and -shm are gone
stop_daemon() {
    local pid
    pid=$(daemon_answers) && kill "-${1:-TERM}" "$pid" && wait_for "the end of daemon $pid" ended "$pid"
}
