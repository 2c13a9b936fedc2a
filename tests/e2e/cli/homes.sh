# SPDX-License-Identifier: Apache-2.0
# State directories: relative, deep, with odd characters, of another user, not writable, not a store.
cd "$WORK"
top=$JOBCTL_HOME
. "$TOP/tests/e2e/expect.sh"
# end: the daemon of the present home
end() {
    local pid
    pid=$(daemon_pid)
    kill "$pid"
    wait_for "daemon $pid ends" ended "$pid"
}

# A relative one is meant from here, for everybody that a command starts too.
printf 'run: cd / && jobctl show "$JOBCTL_JOB_ID"\nresources: {cpus: 1}\n' >job.yaml
export JOBCTL_HOME=relative
code 0 jobctl submit --wait job.yaml
code 0 jobctl logs last
has "$WORK/relative/jobs/1" out
[ -S relative/jobctl.sock ] && [ ! -e /relative ]
end

# Spaces, quotes, a path longer than a socket's address; the workdir as well.
odd="a b/$(printf 'x%.0s' $(seq 100))/\"ü' \$(touch oops)"
export JOBCTL_HOME=$WORK/$odd/state
mkdir -p "$WORK/$odd/work"
cd "$WORK/$odd/work"
printf 'run: pwd; touch here; ls "$JOBCTL_RUN_DIR"\nresources: {cpus: 1}\n' >job.yaml
code 0 jobctl submit --wait job.yaml
code 0 jobctl logs -f last
has "$odd/work" out
has "rank0.log" out
[ -e here ] && [ ! -e oops ]
end
cd "$WORK"

# Not a place for state: a sentence that names it, exit 4, and no daemon.
JOBCTL_HOME=/proc/nothing code 4 jobctl status
has "/proc/nothing" err
JOBCTL_HOME=/dev/null code 4 jobctl status
has "Not a directory" err
mkdir -m 777 open
JOBCTL_HOME=$WORK/open code 4 jobctl status
has "chmod 700" err
mkdir -m 700 newer
sqlite3 newer/jobs.db 'pragma user_version = 99; create table x (y)'
JOBCTL_HOME=$WORK/newer code 4 jobctl status
has "version 99" err
[ "$(sqlite3 newer/jobs.db 'pragma user_version')" = 99 ]

# What is no store is kept aside.
mkdir -m 700 garbage
echo "this is no store" >garbage/jobs.db
export JOBCTL_HOME=$WORK/garbage
code 0 jobctl status
tr -s ' \n' ' ' <err >said
has "The store was damaged, and is kept in $WORK/garbage/store-damaged-" said
has "this is no store" garbage/store-damaged-*/jobs.db
end

# Six at once: one of them is the daemon.
export JOBCTL_HOME=$top
pids=
for i in 1 2 3 4 5 6; do
    jobctl daemon 2>"race$i" & pids="$pids $!"
done
five_refused() { cat race?; [ "$(cat race? | grep -c 'is already running')" = 5 ]; }
wait_for "five are told that one is running already" five_refused
code 0 jobctl version
end
for p in $pids; do wait "$p" || true; done

# No room: what cannot be stored is not done, and the sentence says so.  Needs a file system of its own.
mkdir small
if mount -t tmpfs -o size=16m tmpfs small 2>/dev/null; then
    trap 'umount -l "$WORK/small"' EXIT
    export JOBCTL_HOME=$WORK/small/state
    printf 'run: "true"\nresources: {cpus: 1}\n' >job.yaml
    code 0 jobctl submit --wait job.yaml
    printf 'run: |\n  head -c 30000000 /dev/zero | tr "\\0" x\n  touch wrote\n  while [ ! -e room ]; do sleep 0.1; done\n  echo end\nresources: {cpus: 1}\n' >fill.yaml
    code 0 jobctl submit -q fill.yaml
    wait_for "the disk is full" test -e wrote
    # the log that filled the disk is not the only writer: take the last bytes too
    cat /dev/zero >small/rest 2>/dev/null || true
    code 4 jobctl submit job.yaml
    has "free some space" err
    code 0 jobctl status
    rm small/rest
    truncate -s 0 "$JOBCTL_HOME/jobs/2/1/rank0.log"
    touch room
    code 0 timeout 60 jobctl wait 2
    code 0 timeout 60 jobctl submit --wait job.yaml
    end
fi
