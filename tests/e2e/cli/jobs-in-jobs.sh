# SPDX-License-Identifier: Apache-2.0
# A job that submits the next job finds the same daemon. If it has to start a daemon because the old one died, that
# daemon outlives it, with every job that the daemon starts.
cd "$WORK"
. "$TOP/tests/e2e/expect.sh"
cat >next.yaml <<'YAML'
name: next
resources: {cpus: 1}
run: |
  touch next-runs
  while [ ! -e go ]; do sleep 0.05; done
YAML
cat >first.yaml <<'YAML'
name: first
resources: {cpus: 1}
run: |
  kill -9 "$(jobctl version --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["daemon"]["pid"])')"
  jobctl submit -q next.yaml
  while [ ! -e next-runs ]; do sleep 0.05; done
YAML
[ "$(nproc)" -ge 2 ] || { echo "two CPUs are needed"; exit 77; }
jobctl submit -q first.yaml
wait_for "the job that a job has submitted runs" test -e next-runs
jobctl wait 1 --timeout 60
pid=$(daemon_pid)
! grep '^0::.*/jobctl-' "/proc/$pid/cgroup" || exit 1 # it left the control group of the job
touch go
jobctl wait 2 --timeout 60
jobctl show 2 >out
grep -q 'attempt  *1$' out || { cat out; jobctl why 2; exit 1; }
# nobody had to start another daemon
[ "$(daemon_pid)" = "$pid" ]
[ "$(grep -c ' serves ' "$JOBCTL_HOME/daemon.log")" = 2 ] || { cat "$JOBCTL_HOME/daemon.log"; exit 1; }
