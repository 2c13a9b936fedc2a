# SPDX-License-Identifier: Apache-2.0
# expect.sh - checks for tests of the command line: . "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/wait.sh"

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
json() { read_json holds "o['schema'] == 2 and ($1)" <"$WORK/out"; }
# The engine's own answers, which no other program reads, are of schema 1.
engine_json() { read_json holds "o['schema'] == 1 and ($1)" <"$WORK/out"; }
