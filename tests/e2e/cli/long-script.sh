# SPDX-License-Identifier: Apache-2.0
# A script too long for an argument runs from a file: its end is reached, and its error messages have the right lines,
# on each of two nodes. An environment that is too large is named.
cd "$WORK"
. "$TOP/tests/e2e/expect.sh"

# 300 KiB of lines; the error is on a line that is known, the exit code on the last one.
long() { # LAST-LINE
    echo "  echo begin of \$0"
    awk 'BEGIN { for (i = 3; i < 6000; i++) print "  # line " i " of a script that somebody has generated...." }'
    echo "  not_a_command_at_all || true"
    echo "  echo the end"
    echo "  $1"
}
{ printf 'resources: {cpus: 1}\nretry: {max: 0}\nrun: |\n'; long 'exit 7'; } >long.yaml
[ "$(wc -c <long.yaml)" -gt 300000 ]
code 1 jobctl submit --wait long.yaml
code 0 jobctl logs last
has "begin of $JOBCTL_HOME/jobs/1/1/run.sh" out
grep -Eq 'run\.sh:( line)? 5999: not_a_command_at_all: .*not found' out
has "the end" out
code 0 jobctl why last
has "exited with code 7" out
[ "$(stat -c %a "$JOBCTL_HOME/jobs/1/1/run.sh")" = 600 ]

# The same as a setup, and as ranks of two nodes.
{ printf 'resources: {nodes: 2, cpus: 1}\nrun: "true"\nretry: {max: 0}\nsetup: |\n'; long true; } >setup.yaml
code 0 jobctl submit --wait setup.yaml
code 0 jobctl logs last --setup
grep -Eq 'setup\.sh:( line)? 5999: not_a_command_at_all: .*not found' out
{ printf 'resources: {nodes: 2, cpus: 1}\nretry: {max: 0}\nrun: |\n'; long 'exit $((RANK * 9))'; } >nodes.yaml
code 1 jobctl submit --wait nodes.yaml
code 0 jobctl logs last --rank 0
has "the end" out
code 0 jobctl why last
has "rank 1 on node1 exited with code 9" out

# What cannot go through a file: one variable of 200 KB.
{ printf 'resources: {cpus: 1}\nretry: {max: 0}\nrun: "true"\nenv: {HUGE: %s}\n' "$(head -c 200000 /dev/zero | tr '\0' x)"; } >env.yaml
code 1 jobctl submit --wait env.yaml
code 0 jobctl why last
has "the largest is HUGE with 200005 bytes" out
