# SPDX-License-Identifier: Apache-2.0
# Following a job survives the death of rank and daemon, Ctrl-C leaves the job running, and a daemon that cannot start
# reports why.
cd "$WORK"
. "$TOP/tests/e2e/expect.sh"
until_has() { wait_for "'$1' in $2" says "$1" cat "$2"; }

# A rank that dies once; then its output waits for a file, so that nothing here depends on time.
cat >job.yaml <<YAML
name: watched
resources: {cpus: 1}
run: |
  echo "begin of try"
  if [ ! -e $WORK/once ]; then touch $WORK/once; kill -9 \$\$; fi
  while [ ! -e $WORK/go ]; do sleep 0.05; done
  echo "end of try"
YAML
jobctl submit --follow job.yaml >followed 2>&1 &
follower=$!
until_has "was killed by SIGKILL" followed
until_has "generation 2 starts" followed

# The daemon dies; the follower starts the next one, says nothing, and misses nothing.
kill -9 "$(daemon_pid)"
code 124 jobctl wait 1 --timeout 0.2
jobctl logs -f 1 >logged 2>&1 &
logger=$!
until_has "begin of try" logged
touch go
wait $follower || { echo "follower exited with $?"; cat followed; exit 1; }
wait $logger || { echo "logs -f exited with $?"; cat logged; exit 1; }
[ "$(grep -c 'begin of try' followed)" = 2 ]
[ "$(grep -c 'end of try' followed)" = 1 ]
[ "$(grep -c 'end of try' logged)" = 1 ]
grep -q 'job 1 (watched) succeeded' followed
! grep -q 'daemon' followed || exit 1

# Ctrl-C ends the looking on.
rm go
jobctl submit --follow job.yaml >followed 2>&1 &
follower=$!
until_has "begin of try" followed
kill -INT $follower
rc=0
wait $follower || rc=$?
[ $rc = 130 ] || { echo "exit $rc"; cat followed; exit 1; }
grep -q 'Job 2 keeps running' followed
code 0 jobctl status -q 2
[ "$(jobctl status -o state 2 | tail -n 1)" = running ]
code 0 jobctl cancel 2 --now
code 3 jobctl logs -f 2

# A state directory of any length will do; one that cannot be used is told.
long=$WORK/$(printf 'd%.0s' $(seq 100))
JOBCTL_HOME=$long/x code 0 jobctl version
(
    export JOBCTL_HOME=$long/state
    code 0 jobctl submit -q --set resources.cpus=1 - <<<'run: echo deep'
    code 0 jobctl wait 1 --timeout 60
    code 0 jobctl logs 1
    has deep out
    pid=$(daemon_pid)
    kill "$pid"
    wait_for "the daemon ends" ended "$pid"
)
mkdir -m 700 newer
sqlite3 newer/jobs.db 'pragma user_version = 99; create table x (y)'
JOBCTL_HOME=$WORK/newer code 4 jobctl status
has "cannot start the daemon" err
has "jobs.db" err
[ "$(wc -l <err)" = 1 ]
JOBCTL_HOME=/proc/nowhere code 4 jobctl status

# Events and output are in the order in which they happened: what a generation printed comes before its end, and after
# its start, although both came between two looks.
cat >order.yaml <<YAML
resources: {gpus: 0}
retry: {max: 2, backoff: 1ms..2ms}
run: |
  echo step 1 of it
  printf 'no line feed'
  exit 3
YAML
code 93 jobctl submit --follow order.yaml
grep -v '^job\|^note' out | sed 's/^[0-9:]* \(rank 0 exited\|restarting\|generation\).*/\1/' >order
for _ in 1 2 3; do printf '%s\n' generation 'step 1 of it' 'no line feed' 'rank 0 exited' restarting; done |
    sed '$d' | sed '6a --- generation 2 ---' | sed '12a --- generation 3 ---' | diff - order
