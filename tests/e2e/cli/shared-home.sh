# SPDX-License-Identifier: Apache-2.0
# A home on a file system that machines share (NFS, Lustre): a rollback journal instead of WAL, one daemon for all
# machines, and without locks an error that names JOBCTL_HOME. A preload simulates the file system.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
${CC:-cc} -D_GNU_SOURCE -shared -fPIC -o locks.so "$TOP/tests/fake/locks.c" -ldl

# Without locks nothing is begun, and the sentence says what to do.
code 4 env LD_PRELOAD="$WORK/locks.so" FAKE_SHARED="$JOBCTL_HOME" FAKE_NO_LOCKS=1 jobctl status
has "cannot lock $JOBCTL_HOME/start.lock: its file system (NFS) has no locks" err
has 'set JOBCTL_HOME to a directory on a local disk' err
gone "$JOBCTL_HOME/jobs.db"

# With locks it works, without the shared memory that WAL needs, and survives the death of the daemon.
export LD_PRELOAD="$WORK/locks.so" FAKE_SHARED="$JOBCTL_HOME"
cat >job.yaml <<YAML
name: shared
run: while [ ! -e "$WORK/go" ]; do sleep 0.05; done
YAML
jobctl submit -q job.yaml
wait_event 1 kind=generation_started >/dev/null
gone "$JOBCTL_HOME/jobs.db-wal"
daemon=$(daemon_pid)
read -r host pid <"$JOBCTL_HOME/daemon.lock"
[ "$host" = "$(uname -n)" ] && [ "$pid" = "$daemon" ]
kill -9 "$daemon"
wait_for "the daemon's end" ended "$daemon"
touch go
jobctl wait 1
[ "$(daemon_pid)" != "$daemon" ]

# The lock of a GPU, which NFS gives on a descriptor for writing only.
stop_daemon
mkdir lib
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o lib/libnvidia-ml.so.1 "$TOP/tests/fake/nvml.c"
export LD_LIBRARY_PATH=$WORK/lib FAKE_GPUS=a
code 0 jobctl run -g 1 -- env -u LD_PRELOAD sh -c "flock -n $JOBCTL_HOME/gpus/gpu-GPU-a true || echo held"
has held out
unset LD_PRELOAD
stop_daemon

# A daemon on another machine: it is named.
echo "login2 4711" >"$JOBCTL_HOME/daemon.lock"
exec 9<"$JOBCTL_HOME/daemon.lock"
flock -x 9
code 4 jobctl submit job.yaml
has "the daemon of $JOBCTL_HOME runs on host login2 (pid 4711): use jobctl there, or set JOBCTL_HOME" err
exec 9<&-
jobctl status -a | grep -q 'shared *succeeded'
