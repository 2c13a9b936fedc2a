# SPDX-License-Identifier: Apache-2.0
# The directory of an attempt is deleted, and with it the file that names the cgroup of its ranks: the agent still
# removes the group at its end, or its guardian does if the agent is killed.
[ -n "${MOUNTED-}" ] || {
    mkdir "$WORK/cgroup"
    unshare -m sh -c 'mount -t cgroup2 none "$1" && mkdir "$1/jobctl-test.$$" && rmdir "$1/jobctl-test.$$"' - "$WORK/cgroup" ||
        { echo "no cgroup2 can be mounted here, or no group made"; exit 77; }
    exec env MOUNTED=1 unshare -m bash -euc 'mount -t cgroup2 none "$WORK/cgroup"; . "$1"' - "$0"
}
. "$TOP/tests/e2e/wait.sh"
cd "$WORK"
printf 'run: "[ -e %s/again ] || exec sleep 1000"\n' "$WORK" >job.yaml
start() { # a job whose first attempt stays; sets $id, $agent, $guardian, $rank and $group
    rm -f again
    id=$(jobctl submit job.yaml -q)
    wait_event "$id" kind=generation_started >/dev/null
    agent=$(agent_pid "$id" 1)
    guardian=$(sed -n 's/^PPid:\t//p' "/proc/$agent/status")
    rank=$(last_event "$id" kind=generation_started pids)
    group=$(cat "$JOBCTL_HOME/jobs/$id/1/cgroup")
    grep -qx "$rank" "$group/cgroup.procs"
    touch again
}

start
rm -r "$JOBCTL_HOME/jobs/$id/1"
wait_for "the agent ends, because its directory is gone" ended "$agent" "$guardian" "$rank"
gone "$group"
jobctl wait "$id" --timeout 60

start
rm -r "$JOBCTL_HOME/jobs/$id/1"
kill -KILL "$agent"
wait_for "the guardian ends what is left" ended "$guardian" "$rank"
gone "$group"
jobctl wait "$id" --timeout 60
stop_daemon
