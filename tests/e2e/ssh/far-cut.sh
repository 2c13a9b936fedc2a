# SPDX-License-Identifier: Apache-2.0
# jobctl -H over connections that break: logs -f, run, logs --events -f, wait and status -w resume where they were,
# nothing is lost or printed twice, one message reports that the host is lost and another that it is back; a daemon
# killed there costs nothing; Ctrl-C ends the wait, and a refused login is an error.
. "$TOP/tests/hosts.sh"
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
export HOST_ENV="PATH=$PATH"
hosts_up far
far() { JOBCTL_HOME=$WORK/laptop jobctl -H far "$@"; }
behind() { exec env JOBCTL_HOME="$WORK/laptop" jobctl -H far "$@"; } # with & alone
lines_of() { [ "$(wc -l <"$1")" -ge "$2" ]; }
# It writes a line for each line that it is given, so the test decides how far it is.
mkfifo feed
exec 9<>feed
cat >echo.yaml <<YAML
name: echo
run: exec sed -u '/^end/q' $WORK/feed
resources: {gpus: 0, ranks: 1}
YAML
code 0 far submit -q echo.yaml
behind logs -f echo >logs.out 2>logs.err &
logs=$!
behind logs --events -f echo >events.out 2>events.err &
events=$!
behind wait echo >wait.out 2>wait.err &
wait=$!
behind status -w >status.out 2>status.err &
status=$!
feed() { seq -f 'line %.0f' "$1" "$2" >&9; }

feed 1 100
wait_for "the first lines" lines_of logs.out 100
for i in 1 2 3; do
    wait_for "four connections" host_relays far 4
    host_drop far
    feed $((100 * i + 1)) $((100 * i + 100))
    wait_for "the lines after break $i" lines_of logs.out $((100 * i + 100))
done

# Nobody listens there any more, for a while, and the daemon dies too.
wait_for "four connections" host_relays far 4
host_down far
away() { [ "$(grep -c 'trying again' "$1")" -gt "$(grep -c 'answers again' "$1")" ]; }
for f in logs events wait status; do
    wait_for "$f tells that far is away" away $f.err
done
stop_daemon KILL
feed 401 500
host_up far
wait_for "the lines after the silence" lines_of logs.out 500
for f in logs events wait status; do
    wait_for "$f is back" grep -q 'far answers again after .*nothing was lost' $f.err
done
kill -INT $status
wait $status

echo end >&9
wait $logs
wait $events
wait $wait
seq -f 'line %.0f' 500 | cmp - <(grep '^line' logs.out)
far logs --events echo >all.out
cmp all.out events.out
grep 'succeeded' wait.out

# Ctrl-C while the host is away: at once, and the job runs on.
behind run -N sleeper -- sleep 300 >run.out 2>run.err & # until it is cancelled
run=$!
wait_for "the sleeper runs" job_is sleeper state running
wait_for "one connection" host_relays far 1
host_down far
wait_for "run tells that far is away" away run.err
kill -INT $run
got=0
wait $run || got=$?
[ $got = 130 ]
grep 'Reattach: jobctl -H far logs -f ' run.out
job_is sleeper state running

# A timeout of wait holds while the host is away; a host that takes the key no more is an answer.
host_up far
behind wait -t 3s sleeper >wait.out 2>wait.err &
wait=$!
behind logs -f sleeper >logs.out 2>logs.err &
logs=$!
wait_for "two connections" host_relays far 2
host_down far
wait_for "wait tells that far is away" away wait.err
got=0
wait $wait || got=$?
[ $got = 124 ]
: >"$HOME/.ssh/authorized_keys"
host_up far
got=0
wait $logs || got=$?
[ $got = 2 ]
grep 'far rejected the keys' logs.err
code 0 jobctl cancel sleeper
