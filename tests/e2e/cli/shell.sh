# SPDX-License-Identifier: Apache-2.0
# jobctl shell: a command, or a shell on a terminal, with the directory, environment and secrets of a rank; it returns
# the command's exit code. A job that is not running, and a missing rank, are refused with an error.
. "$TOP/tests/e2e/expect.sh"
mkdir -p "$WORK/there"
cat >"$WORK/two.yaml" <<YAML
name: two
workdir: $WORK/there
run: |
  touch $WORK/up.\$RANK
  while [ ! -e $WORK/end ]; do sleep 0.05; done
env: {MINE: of the job}
secrets: [GUARDED]
resources: {ranks: 2, gpus: 0, cpus: 1}
YAML
GUARDED='not for all' jobctl submit -q "$WORK/two.yaml"
wait_for "both ranks run" test -e "$WORK/up.0" -a -e "$WORK/up.1"

cd "$WORK"
code 0 env MINE=outside jobctl shell two -- sh -c 'echo "$RANK of $WORLD_SIZE, $MINE, $GUARDED"; pwd'
same_text() { [ "$(cat out)" = "$1" ] || { cat out err; exit 1; }; }
same_text "$(printf '0 of 2, of the job, not for all\n%s' "$WORK/there")"
code 0 jobctl shell --rank 1 two -- sh -c 'echo "$RANK"'
same_text 1
code 7 jobctl shell two --rank 1 -- sh -c 'exit 7'
printf 'echo "rank $RANK"\nexit 5\n' >typed
code 5 env SHELL=/bin/sh sh -c 'jobctl shell two <typed'
has 'rank 0' out

code 2 jobctl shell two --rank 2 -- true
has '--rank 2: the job has 2 ranks, 0 to 1' err
code 3 jobctl shell two -- no-such-program
has 'no-such-program cannot be run: No such file or directory' err
touch end
code 0 jobctl wait two
code 3 jobctl shell two
has 'job 1 (two) is succeeded: a shell needs a running rank' err
