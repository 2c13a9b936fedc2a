# SPDX-License-Identifier: Apache-2.0
# expect.sh - what the tests of the command line say: . "$TOP/tests/e2e/expect.sh"

# code EXPECTED COMMAND...: run it, compare the exit code; output in $WORK/out and $WORK/err
code() {
    local want=$1 got=0
    shift
    "$@" >"$WORK/out" 2>"$WORK/err" || got=$?
    [ "$got" = "$want" ] || { echo "exit $got instead of $want: $*"; cat "$WORK/out" "$WORK/err"; exit 1; }
}
# has TEXT FILE, lacks TEXT FILE, empty FILE: of $WORK/out or $WORK/err
has() { grep -qF -- "$1" "$WORK/$2" || { echo "no '$1' in $2:"; cat "$WORK/$2"; exit 1; }; }
lacks() { ! grep -qF -- "$1" "$WORK/$2" || { echo "'$1' in $2:"; cat "$WORK/$2"; exit 1; }; }
empty() { [ ! -s "$WORK/$1" ] || { echo "$1 is not empty:"; cat "$WORK/$1"; exit 1; }; }
# json CONDITION: $WORK/out is one of our answers, `o`, and the condition holds
json() { python3 -c "import json,sys; o = json.load(open('$WORK/out')); assert o['schema'] == 2; assert $1, o"; }
daemon_pid() { jobctl version --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["daemon"]["pid"])'; }
# await TEXT: wait until an event of job 1 has it; prints the newest such event
await() {
    for _ in $(seq 600); do
        found=$(jobctl events 1 --json | sed 's/{"seq":/\n&/g' | grep -e "$1" | tail -n 1)
        [ -z "$found" ] || { echo "$found"; return; }
        sleep 0.05
    done
    echo "no event with $1" >&2
    jobctl events 1 >&2
    return 1
}
# field NAME: its value, a number or text, in the event on stdin
field() { sed -n "s/.*\"$1\":\[*\"*\([^],\"}]*\).*/\1/p"; }
