# SPDX-License-Identifier: Apache-2.0
# A job that cannot run is refused at submit, with the place in the file: a program that is not in PATH, a missing
# directory, a host without an address, Slurm without a configuration. Doubtful cases are accepted. A job that waits for
# a machine ends at once when it is cancelled.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
spec() { printf '%s\n' "${@:2}" >"$1.yaml"; }

# --- programs
spec typo 'name: typo' 'resources: {gpus: 0}' 'run: |' '  pyhton train.py 2>&1 | tee log'
for command in "submit" "submit --dry-run" "plan" "drill"; do
    # shellcheck disable=SC2086
    code 2 jobctl $command typo.yaml
    has "typo.yaml:3:6: run: pyhton is not in PATH; install it, or write its path" err
done
mkdir bin
printf '#!/bin/sh\n' >bin/here-only3
chmod +x bin/here-only3
export PATH=$PATH:$WORK/bin
code 2 jobctl submit typo.yaml --set 'run=here-only train.py'
has "--set run=here-only train.py: run: here-only is not in PATH, but here-only3 is; use that" err
# With a setup, a dependency, a function, another PATH or machine it may be there.
code 0 jobctl submit --dry-run -q typo.yaml --set 'setup=. ./env'
code 0 jobctl submit --dry-run -q typo.yaml --set 'env.PATH=/opt/bin'
code 0 jobctl submit --dry-run -q typo.yaml --set 'env.BASH_ENV=x'
code 0 jobctl submit --dry-run -q typo.yaml --set 'env_from=clean'
code 0 env 'BASH_FUNC_pyhton%%=() { python3 "$@"; }' jobctl submit --dry-run -q typo.yaml
code 0 env BASH_ENV=x jobctl submit --dry-run -q typo.yaml
code 0 jobctl submit --dry-run -q typo.yaml --set 'run=here-only3'
code 0 jobctl submit --dry-run -q typo.yaml --set 'run=./pyhton'
# The second of two files, before the first is a job; a command without a file.
printf '%s\n' 'name: first' 'resources: {gpus: 0}' 'run: true' >first.yaml
code 2 jobctl submit first.yaml typo.yaml
has "typo.yaml:3:6: run: pyhton is not in PATH; install it, or write its path" err
code 0 jobctl ls --all --json
json 'o["jobs"] == []'
code 2 jobctl run pyhton train.py
has "jobctl: run: pyhton is not in PATH; install it, or write its path" err
spec away 'workdir: nowhere' 'run: python3 x.py'
code 2 jobctl submit away.yaml
has "away.yaml:1:10: workdir: directory $WORK/nowhere does not exist" err

# --- a launcher in each rank
spec twice 'resources: {ranks: 2, cpus: 1}' 'setup: . ./env' 'run: torchrun --nproc_per_node 2 train.py'
code 0 jobctl submit --dry-run -q twice.yaml
has "note: run: torchrun starts 2 processes in each of the 2 ranks" err
code 0 jobctl plan twice.yaml
has "note: run: torchrun starts 2 processes in each of the 2 ranks" out
code 0 jobctl plan twice.yaml --set resources.ranks=1
lacks "torchrun starts" out

# --- a drill of a command: what only the script knows is not judged
spec sleeper 'resources: {gpus: 0}' 'run: |' '  sleep 1000' '  true'
code 0 jobctl drill sleeper.yaml --json --only kill-rank,slow-rank,checkpoint,disk,kill-daemon
json '[f["result"] for f in o["faults"]] == ["pass", "skipped", "skipped", "skipped", "pass"]'
json 'all(f["steps_lost"] is None for f in o["faults"])'

# --- hosts; the daemon that the next commands start has the same configuration of ssh
restart() {
    local pid
    pid=$(daemon_pid)
    kill -KILL "$pid"
    wait_for "the daemon ends" ended "$pid"
}
if [ -x "$BIN/jobctl-ssh" ]; then
    restart
    export HOME=$WORK
    unset SSH_AUTH_SOCK
    mkdir .ssh
    printf '%s\n' 'Host near' '  HostName 127.0.0.1' '  Port 1' 'Host far' '  HostName inner.invalid' \
        '  ProxyJump near' >.ssh/config
    spec hosts 'launch: ssh' 'hosts: [near, nowhere.invalid]' 'run: nothing-here x'
    # Without a resolver nothing can be said of a name.
    if jobctl-ssh resolve nowhere.invalid | grep '"unknown":true'; then
        code 2 jobctl submit hosts.yaml
        has "hosts.yaml:2:8: hosts: nowhere.invalid: host not found; correct" err
        code 2 jobctl plan hosts.yaml
        has "hosts.yaml:2:8: hosts: nowhere.invalid: host not found; correct" err
        # A first attempt, too, if the name goes before it begins.
        id=$(jobctl submit --hold -q hosts.yaml --set 'hosts=[near]')
        sed -i 's/127.0.0.1/nowhere.invalid/' .ssh/config
        jobctl hold --off "$id"
        code 1 jobctl wait "$id" --timeout 60
        says "near (nowhere.invalid): host not found; not retried" jobctl why "$id" --json
        sed -i '2s/nowhere.invalid/127.0.0.1/' .ssh/config
    fi
    code 0 jobctl submit --dry-run -q hosts.yaml --set 'hosts=[near, far]'
    matches "note: hosts: far (inner.invalid): .*; its jump host must be able to resolve it" cat err
    # Nobody listens there: cancelled in the middle of its tries, it is done.
    id=$(jobctl submit -q hosts.yaml --set 'hosts=[near]')
    wait_for "job $id tries" says "host near refused the connection on port 1" jobctl why "$id"
    jobctl cancel "$id"
    code 3 jobctl wait "$id" --timeout 30
fi

# --- Slurm
[ -x "$BIN/jobctl-slurm" ] || exit 0
restart
export SLURM_CONF=$WORK/nothing.conf
spec slurm 'launch: slurm' 'resources: {gpus: 0}' 'run: nothing-here x'
for command in "submit" "submit --dry-run" "plan"; do
    # shellcheck disable=SC2086
    code 2 jobctl $command slurm.yaml
    has "slurm.yaml:1:9: launch: slurm is not possible here: SLURM_CONF is $SLURM_CONF, which is not" err
done
code 2 jobctl submit sleeper.yaml --set launch=slurm
has "--set launch=slurm: launch: slurm is not possible here" err
# A configuration whose slurmctld does not answer: the job waits for it, also after a restart, but can be cancelled.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
printf '%s\n' ClusterName=x 'SlurmctldHost=localhost(127.0.0.1)' "SlurmctldPort=$port" NodeName=node1 \
    MessageTimeout=2 SlurmctldTimeout=1 PartitionName=main\ Nodes=node1 \
    "StateSaveLocation=$WORK" "SlurmdSpoolDir=$WORK" >"$SLURM_CONF"
waits() {
    id=$(jobctl submit -q slurm.yaml)
    wait_for "job $id waits for Slurm" job_is "$id" state starting
}
waits
jobctl cancel "$id"
code 3 jobctl wait "$id" --timeout 30
waits
restart
jobctl cancel --now "$id"
code 3 jobctl wait "$id" --timeout 30
# The configuration goes, and the job ends with the reason.
id=$(jobctl submit --hold -q slurm.yaml)
restart
rm "$SLURM_CONF"
jobctl hold --off "$id"
code 1 jobctl wait "$id" --timeout 30
says "launch: slurm is not possible here" jobctl why "$id"
