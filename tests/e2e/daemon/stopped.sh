# SPDX-License-Identifier: Apache-2.0
# Where the daemon's process is stopped, each command says so within seconds, with its pid and what to do, instead of
# waiting; once it goes on, nothing is lost.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
code 0 jobctl run -q -g 0 -- true
daemon=$(daemon_answers)
kill -STOP "$daemon"
trap 'kill -CONT "$daemon"' EXIT
n=0
for command in 'status' 'why 1' 'daemon status' 'daemon stop' 'nodes' 'logs -f 1' 'wait 1' 'run -q -g 0 -- true'; do
    n=$((n + 1))
    (rc=0; timeout 60 jobctl $command >"$n.out" 2>&1 || rc=$?; echo "$command: $rc" >"$n.rc") &
done
wait
cat ./*.rc ./*.out
for ((i = 1; i <= n; i++)); do
    grep -q "the daemon (pid $daemon) does not answer: its process is stopped; run .kill -CONT $daemon" $i.out
    grep -q ': [1-9]$' $i.rc
done
kill -CONT "$daemon"
trap - EXIT
code 0 jobctl run -q -g 0 -- true
code 0 jobctl show 2 --json
json "o['job']['id'] == 2 and o['job']['result'] == 'succeeded'"
