# SPDX-License-Identifier: Apache-2.0
# Agent and guardian are both killed with -9 while children of a rank hide, without a mark or a known parent. Where a
# cgroup (v2) can be created, its members are found, by the daemon or by `jobctl-agent cleanup`, and none is left.
[ -n "${MOUNTED-}" ] || {
    mkdir "$WORK/cgroup"
    unshare -m sh -c 'mount -t cgroup2 none "$1" && mkdir "$1/jobctl-test.$$" && rmdir "$1/jobctl-test.$$"' - "$WORK/cgroup" ||
        { echo "no cgroup2 can be mounted here, or no group made: the mark and the guardian are all there is"; exit 77; }
    exec env MOUNTED=1 unshare -m bash -euc 'mount -t cgroup2 none "$WORK/cgroup"; . "$1"' - "$0"
}
. "$TOP/tests/e2e/wait.sh"
cd "$WORK"
cat >job.yaml <<'YAML'
run: |
  if [ ! -e "$PIDS" ]; then
    setsid env -i PATH="$PATH" sh -c 'trap "" TERM; (setsid sleep 1000 & echo "$!" >>"$1"); echo "$$" >>"$1"; sleep 1000' \
        hidden "$PIDS" </dev/null >/dev/null 2>&1 &
    while [ "$(wc -l 2>/dev/null <"$PIDS")" != 2 ]; do sleep 0.05; done
    touch "$PIDS.up"
    exec sleep 1000
  fi
  for pid in $(cat "$PIDS"); do ! grep -q '^State:.[^ZX]' "/proc/$pid/status" 2>/dev/null || echo "$pid is alive"; done >left
retry: {backoff: 0.05s..0.1s}
YAML
trap 'for pid in ${pids-}; do ! alive "$pid" || kill -KILL "$pid"; done' EXIT
start() { # NAME: sets $pids, $agent, $guardian and the group of its ranks
    id=$(jobctl submit job.yaml --set "name=$1" --set "env.PIDS=$WORK/$1" -q)
    wait_for "what hides in job $id is up" test -e "$1.up"
    pids=$(cat "$1")
    agent=$(agent_pid "$id" 1)
    guardian=$(sed -n 's/^PPid:\t//p' "/proc/$agent/status")
    group=$(cat "$JOBCTL_HOME/jobs/$id/1/cgroup")
    for pid in $pids; do grep -qx "$pid" "$group/cgroup.procs"; done
}

# The daemon ends them before the next attempt.
start seen
kill -KILL "$guardian" "$agent"
jobctl wait "$id" --timeout 60
job_is "$id" attempt 2
[ -e left ] && [ ! -s left ] || { echo "the second attempt began beside: $(cat left)"; exit 1; }
ended $pids
wait_for "the group is removed" gone "$group"
gone "$(cat "$JOBCTL_HOME/jobs/$id/2/cgroup")"

# There is no daemon either.
start unseen
daemon=$(daemon_answers)
kill -KILL "$daemon"
wait_for "daemon $daemon ends" ended "$daemon"
kill -KILL "$guardian" "$agent"
wait_for "the agent ends" ended "$agent" "$guardian"
for pid in $pids; do alive "$pid"; done
[ "$(jobctl-agent cleanup "$JOBCTL_HOME/jobs/$id/1")" = clean ]
ended $pids
gone "$group"
