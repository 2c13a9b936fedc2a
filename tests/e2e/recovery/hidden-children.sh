# SPDX-License-Identifier: Apache-2.0
# The agent is killed with -9 while children of its rank hide: without our environment, in new sessions, forked twice,
# ignoring SIGTERM. Its guardian ends all of them before the next attempt starts, even without a daemon.
. "$TOP/tests/e2e/wait.sh"
cd "$WORK"
cat >hide.sh <<'SH'
# hide.sh FILE: processes that nothing but their descent gives away; their pids go to FILE
export PATH=/usr/bin:/bin
hidden() { setsid env -i PATH="$PATH" sh -c "$1" hidden "$2" </dev/null >/dev/null 2>&1 & }
(hidden 'echo "plain $$" >>"$1"; exec sleep 1000' "$1")
(hidden 'trap "" TERM; echo "deaf $$" >>"$1"; while :; do sleep 1; done' "$1")
(hidden 'setsid sh -c '\''echo "nested $$" >>"$0"; while :; do sleep 1; done'\'' "$1" & echo "above $$" >>"$1"; wait' "$1")
SH
cat >job.yaml <<'YAML'
run: |
  if [ ! -e "$PIDS" ]; then
    sh hide.sh "$PIDS"
    while [ "$(wc -l <"$PIDS")" -lt 4 ]; do sleep 0.05; done
    echo "rank $$" >>"$PIDS"
    exec sleep 1000
  fi
  while read -r name pid; do
    grep -q '^State:.[^ZX]' "/proc/$pid/status" 2>/dev/null && echo "$name $pid is alive"
  done <"$PIDS" >left
  exit 0
retry: {backoff: 0.05s..0.1s}
YAML
# A failure must leave nothing behind: no mark would show it.
trap 'for pid in ${pids-}; do ! alive "$pid" || kill -KILL "$pid"; done' EXIT
hides() { [ "$(wc -l 2>/dev/null <"$1")" = 5 ]; }
start() { # NAME
    id=$(jobctl submit job.yaml --set "name=$1" --set "env.PIDS=$WORK/$1" -q)
    wait_for "what hides in job $id is up" hides "$1"
    pids=$(cut -d' ' -f2 "$1")
    for pid in $pids; do alive "$pid"; done
    agent=$(agent_pid "$id" 1)
    guardian=$(sed -n 's/^PPid:\t//p' "/proc/$agent/status")
    [ "$(cat "/proc/$guardian/comm")" = jobctl-guardian ]
}

start seen
kill -KILL "$agent"
jobctl wait "$id" --timeout 60
job_is "$id" attempt 2
[ -e left ] && [ ! -s left ] || { echo "the second attempt began beside: $(cat left)"; exit 1; }
ended $pids "$guardian"
grep -q 'the agent died; its guardian killed the processes that remained: .*(sh)' "$JOBCTL_HOME/jobs/$id/1/agent.log"

# What the rank had started is not ended while the agent lives, nor by the guardian's end.
start unguarded
kill -KILL "$guardian"
wait_for "the guardian ends" ended "$guardian"
for pid in $pids $agent; do alive "$pid"; done
jobctl cancel "$id" --now
! jobctl wait "$id" --timeout 60 || exit 1
ended $pids "$agent"

# Nobody is there but the guardian.
start unseen
daemon=$(daemon_answers)
kill -KILL "$daemon"
wait_for "daemon $daemon ends" ended "$daemon"
kill -KILL "$agent"
wait_for "everything ends" ended $pids "$guardian"
