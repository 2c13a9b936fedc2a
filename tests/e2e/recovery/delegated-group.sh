# SPDX-License-Identifier: Apache-2.0
# A non-root user in a delegated part of the cgroup hierarchy, as with systemd and Slurm: the ranks run in their own
# group there, agent and guardian are killed, and hidden processes are found and ended.
user=65534
[ -n "${MOUNTED-}" ] || {
    command -v setpriv >/dev/null || { echo "no setpriv to become another user"; exit 77; }
    mkdir "$WORK/cgroup"
    unshare -m sh -c 'mount -t cgroup2 none "$1" && mkdir "$1/jobctl-test.$$" && rmdir "$1/jobctl-test.$$"' - "$WORK/cgroup" ||
        { echo "no cgroup2 can be mounted here, or no group made"; exit 77; }
    setpriv --reuid $user --regid $user --clear-groups test -x "$BIN/jobctl" ||
        { echo "another user cannot run the programs in $BIN"; exit 77; }
    exec env MOUNTED=1 unshare -m bash -euc 'mount -t cgroup2 none "$WORK/cgroup"; . "$1"' - "$0"
}
if [ "$(id -u)" = 0 ]; then
    mine=$WORK/cgroup/user-$$
    mkdir "$mine"
    chown $user "$mine" "$mine/cgroup.procs" "$mine/cgroup.subtree_control" "$mine/cgroup.threads"
    chown $user "$WORK"         # not what is in it: the whole hierarchy is mounted there
    rc=0
    (echo 0 >"$mine/cgroup.procs" && exec setpriv --reuid $user --regid $user --clear-groups env "MINE=$mine" bash -eu "$1") || rc=$?
    rmdir "$mine" || { find "$mine" -type d; exit 1; }
    exit $rc
fi
. "$TOP/tests/e2e/wait.sh"
cd "$WORK"
trap 'jobctl cancel --now 1 >/dev/null 2>&1 || true; stop_daemon' EXIT
cat >job.yaml <<'YAML'
run: |
  if [ ! -e "$PID" ]; then
    setsid env -i PATH="$PATH" sh -c 'trap "" TERM; echo "$$" >"$1.new"; mv "$1.new" "$1"; exec sleep 1000' hidden "$PID" \
        </dev/null >/dev/null 2>&1 &
    exec sleep 1000
  fi
  ! grep -q '^State:.[^ZX]' "/proc/$(cat "$PID")/status" 2>/dev/null || touch "$PID.lives"
retry: {backoff: 0.05s..0.1s}
YAML
id=$(jobctl submit job.yaml --set "env.PID=$WORK/pid" -q)
wait_for "what hides is up" test -e pid
agent=$(agent_pid "$id" 1)
guardian=$(sed -n 's/^PPid:\t//p' "/proc/$agent/status")
group=$(cat "$JOBCTL_HOME/jobs/$id/1/cgroup")
case $group in */"${MINE##*/}"/jobctl-*) ;; *) echo "its group is not in ours: $group"; exit 1 ;; esac
grep -qx "$(cat pid)" "$group/cgroup.procs"
kill -KILL "$guardian" "$agent"
jobctl wait "$id" --timeout 60
[ ! -e pid.lives ]
job_is "$id" attempt 2
ended "$(cat pid)"
wait_for "the group is removed" gone "$group"
