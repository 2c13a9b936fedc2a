# SPDX-License-Identifier: Apache-2.0
# What users of a shared machine see of each other: who and since when, never a job's name, unless both are in the group
# of show_names_to. A directory that others could change is not used, and doctor reports it.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
export JOBCTL_MACHINE_DIR=$WORK/machine
row() { jobctl doctor 2>&1 | tr -s ' \n' ' '; }
JOBCTL_MACHINE_DIR=none row | grep -F 'JOBCTL_MACHINE_DIR is "none"'
row | grep -F "no directory $WORK/machine for the locks of all users"
mkdir -m 777 machine
chmod 777 machine
row | grep -F "jobctl does not wait for jobs of other users: $WORK/machine is not sticky"
chmod 1777 machine
row | grep -F "GPUs and CPU slots are shared by the locks in $WORK/machine"

[ "$(id -u)" = 0 ] || { echo "names of other users: that takes root"; exit 77; }
chmod 711 .
mkdir bin
cp "$BIN"/jobctl "$BIN"/jobctl-agent "$BIN"/jobctl-train bin
group=$(getent group 100 | cut -d: -f1)
[ -n "$group" ] || { echo "there is no group 100"; exit 77; }
for u in 1 2 3; do mkdir -p "u$u/state" "u$u/config/jobctl"; done
echo "show_names_to: $group" >u1/config/jobctl/config.yaml
cat >u1/job.yaml <<YAML
name: unpublished
resources: {cpus: 1}
run: "touch $WORK/u1/runs; while [ ! -e $WORK/go ]; do sleep 0.02; done"
YAML
for u in 1 2 3; do chown -R "$((65430 + u)):$((65430 + u))" "u$u"; done
as() { # USER COMMAND...: users 1 and 2 are in the group
    local u=$1 groups=--clear-groups
    [ "$u" = 3 ] || groups=--groups=100
    (cd "$WORK/u$u" && setpriv "--reuid=$((65430 + u))" "--regid=$((65430 + u))" "$groups" env HOME="$WORK/u$u" \
        XDG_CONFIG_HOME="$WORK/u$u/config" JOBCTL_HOME="$WORK/u$u/state" PATH="$WORK/bin:$PATH" "${@:2}")
}
end() {
    local u pid
    touch "$WORK/go"
    for u in 1 2 3; do
        pid=$(curl -s --max-time 10 --unix-socket "$WORK/u$u/state/jobctl.sock" http://jobctl/v1/version |
            field pid) || continue
        kill "$pid" && wait_for "the end of the daemon of user $u" ended "$pid"
    done
}
trap end EXIT
as 1 jobctl submit -q job.yaml
wait_for "it runs" test -e u1/runs
as 1 jobctl nodes | grep '(job unpublished): 1 CPU slot'
as 2 jobctl nodes | grep '(job unpublished): 1 CPU slot'
as 3 jobctl nodes >out
grep ' since .*UTC: 1 CPU slot' out
! grep unpublished out || exit 1
as 3 jobctl nodes --json | field nodes.0.users.0.job | grep -x null
touch go
as 1 jobctl wait 1 --timeout 60
