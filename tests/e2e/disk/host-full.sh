# SPDX-License-Identifier: Apache-2.0
# A host of launch: ssh whose disk has no space for an agent: the job reports the host and what could not be created,
# waits by the rule for full disks, and runs once there is space, without counting a failure.
[ -n "${MOUNTED-}" ] || {
    mkdir -p "$WORK/one/.local/state"
    unshare -m mount -t tmpfs -o size=12m none "$WORK/one/.local/state" || { echo "no file system can be mounted here"; exit 77; }
    exec env MOUNTED=1 unshare -m bash -euc 'mount -t tmpfs -o size=12m none "$WORK/one/.local/state"; . "$1"' - "$0"
}
. "$TOP/tests/hosts.sh"
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
hosts_up one
cat >job.yaml <<'YAML'
launch: ssh
hosts: [one]
resources: {gpus: 0}
run: "true"
retry: {backoff: 0.05s..0.1s}
YAML
tells() { jobctl why 1 | tr -s '\n ' '  ' | grep "$1"; }

# A spool of 4 MB does not fit.
head -c 9000000 /dev/zero >one/.local/state/rest
jobctl submit -q job.yaml
wait_for "the job tells of the host" tells 'no room on one: cannot make the spool'
wait_for "it has been tried again" eval '[ "$(events_of 1 kind=start_failed cause=disk_full | wc -l)" -ge 2 ]'
: >one/.local/state/rest
code 0 jobctl wait 1
[ "$(jobctl show 1 --json | field job.result)" = succeeded ]
jobctl logs --events 1 | grep 'no room on one'
