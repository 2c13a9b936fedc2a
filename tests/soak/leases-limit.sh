# SPDX-License-Identifier: Apache-2.0
# max_duration does not count while a job waits for resources of other users, even across a restart of its daemon.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
export JOBCTL_MACHINE_DIR=$WORK/machine
mkdir -m 1777 machine
cpus=$(nproc)
on() { JOBCTL_HOME=$WORK/home$1 "${@:2}"; }
trap 'for i in 1 2; do on "$i" stop_daemon || true; done' EXIT
on 1 jobctl run -q -d -N holder --set resources.cpus="$cpus" -- bash -c "touch $WORK/holds; exec sleep 25"
wait_for "the holder runs" test -e holds
on 2 jobctl run -q -d -N waits --set max_duration=12s -- true
wait_for "it waits" says 'waiting for 1 CPU slot' on 2 jobctl why 1 --json
on 2 stop_daemon KILL
wait_for "it still waits" says 'waiting for 1 CPU slot' on 2 jobctl why 1 --json
on 2 jobctl wait 1 --timeout 120
on 1 jobctl wait 1 --timeout 120
