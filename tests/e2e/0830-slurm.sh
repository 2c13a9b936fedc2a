#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Jobs with launch: slurm on a real Slurm: one trains to its end; one waits and says why, and is
# cancelled; a notice before the time limit leads to a checkpoint and a new allocation; the daemon and
# slurmctld are killed under one that runs, and a lost submit never makes two.
[ -x "$BIN/jobctl-slurm" ] || { echo "jobctl-slurm is not built: no libslurm on this machine"; exit 77; }
. "$TOP/tests/e2e/expect.sh"
cluster() { "$TOP/tests/slurm/cluster.sh" "$WORK/slurm" "$@"; }
trap 'cluster stop' EXIT
rc=0
cluster start 1 || rc=$?
[ "$rc" = 0 ] || exit "$rc"
export SLURM_CONF=$WORK/slurm/slurm.conf
cd "$WORK"
# until TEXT COMMAND...: its output has TEXT within a minute
until_says() {
    local text=$1
    shift
    for _ in $(seq 600); do
        "$@" >"$WORK/out" 2>&1 || true
        ! grep -qF -- "$text" "$WORK/out" || return 0
        sleep 0.1
    done
    echo "never said '$text': $*"
    cat "$WORK/out" "$JOBCTL_HOME/daemon.log"
    cat "$JOBCTL_HOME"/jobs/*/*/slurm.log
    return 1
}
slurm_id() { squeue -h -a -o "%i %k" | sed -n "s/^\([0-9]*\) jobctl:$1\..*/\1/p" | tail -n 1; }

cat >train.yaml <<YAML
launch: slurm
slurm: {partition: main, time: 10m, grace: 30s, extra: {mem: 1G}}
resources: {gpus: 0, cpus: 1}
train: {model: {preset: tiny}, data: {encoders: synthetic, resolution: 32}, batch: {global: 4}, steps: 20}
checkpoint: {every: 5 steps}
retry: {backoff: 0.05s..0.1s}
YAML
# The doctor, where jobs are submitted: what Slurm has, and that the compute nodes must be seen there.
code 0 jobctl doctor train.yaml --json --set max_duration=2h
json "{(r['check'], r['status']) for r in o['rows']} >= {('Slurm', 'ok'), ('time', 'warn'), ('compute nodes', 'unknown')}"
code 1 jobctl doctor train.yaml --set resources.nodes=9
grep -q 'Slurm  *resources.nodes asks for 9, and of 1 nodes 1 are in service' out
code 0 jobctl render train.yaml
for line in '--partition=main' '--time=10' '--mem=1G' '--cpus-per-task=1' '--signal=B:USR2@30' '--comment=jobctl:0.1:0'; do
    has "#SBATCH $line" out
done
lacks '{{' out
bash -n out
code 0 jobctl plan train.yaml
has 'once it is known' out

# One trains to its end.
id=$(jobctl submit train.yaml -q)
jobctl wait "$id" --timeout 60 || { cat "$JOBCTL_HOME/daemon.log" "$JOBCTL_HOME"/jobs/*/*/*.log; exit 1; }
code 0 jobctl show "$id" --json
json "o['job']['result'] == 'succeeded' and o['job']['step'] == 20 and o['job']['attempt'] == 1"
code 0 jobctl logs "$id"
has 'step' out

# One that waits tells for what, through a daemon killed meanwhile, and has one allocation only.
cat >sleep.yaml <<'YAML'
launch: slurm
slurm: {extra: {exclusive: true}}
resources: {gpus: 0}
run: exec sleep 1000
YAML
first=$(jobctl submit sleep.yaml -q)
until_says '"state":"running"' jobctl show "$first" --json
second=$(jobctl submit sleep.yaml -q)
until_says 'is pending: Resources (no node is' jobctl why "$second"
has "Slurm job $(slurm_id "$second")" out
kill -KILL "$(daemon_pid)"
until_says 'is pending: Resources' jobctl why "$second"
[ "$(squeue -h -a -o %k | grep -c "^jobctl:$second\.")" = 1 ]
jobctl cancel "$second"
code 3 jobctl wait "$second" --timeout 60
code 0 jobctl why "$first"
has 'is running' out
jobctl cancel "$first"
code 3 jobctl wait "$first" --timeout 60
for _ in $(seq 300); do [ -n "$(squeue -h)" ] || break; sleep 0.1; done
[ -z "$(squeue -h)" ] || { squeue; exit 1; }

# What Slurm refuses ends with its words.
id=$(jobctl submit sleep.yaml -q --set slurm.partition=nowhere --set "retry={max: 0}")
jobctl wait "$id" --timeout 60 && exit 1
code 0 jobctl why "$id"
has 'Slurm refuses it: Invalid partition name specified' out

# Before its time is over the ranks save and stop, and a new allocation goes on from there.
id=$(jobctl submit train.yaml -q --set train.steps=100000000 --set name=long)
until_says '"checkpoint":{"step":' jobctl show "$id" --json
scancel --batch --signal=USR2 "$(slurm_id "$id")"
until_says '"attempt":2' jobctl show "$id" --json
until_says '"state":"running"' jobctl show "$id" --json
code 0 jobctl events "$id"
has 'the machine will soon be taken away' out
resumed() { jobctl events "$id" --json | sed 's/{"seq":/\n&/g' | grep '"rank_started"' |
            sed -n 's/.*"resume_step":\([0-9]*\).*/\1/p' | sort -n | tail -n 1; }
for _ in $(seq 300); do [ "$(resumed)" -eq 0 ] || break; sleep 0.1; done
[ "$(resumed)" -gt 0 ] || { jobctl events "$id"; exit 1; }

# slurmctld killed, then the daemon: the ranks train on, and are found again.
cluster killctl
step() { jobctl show "$id" --json | sed -n 's/.*"step":\([0-9]*\).*/\1/p'; }
before=$(step)
kill -KILL "$(daemon_pid)"
for _ in $(seq 300); do [ "$(step)" -le $((before + 10)) ] || break; sleep 0.1; done
cluster startctl
until_says '"state":"running"' jobctl show "$id" --json
for _ in $(seq 300); do [ "$(step)" -le $((before + 10)) ] || break; sleep 0.1; done
[ "$(step)" -gt $((before + 10)) ]
code 0 jobctl show "$id" --json
json "o['job']['attempt'] == 2 and o['job']['generation'] == 1"
jobctl cancel "$id"
code 3 jobctl wait "$id" --timeout 60
