#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Jobs with launch: slurm on a real Slurm: one trains to its end; one waits with a reason, and is cancelled; a notice
# before the time limit leads to a checkpoint and a new allocation; daemon and slurmctld are killed during a job, and a
# lost submit never makes two jobs.
. "$TOP/tests/slurm/open.sh"
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
json "{(r['node'], r['check'], r['status']) for r in o['rows']} == {('here', 'programs', 'ok'), ('here', 'data', 'ok'), ('here', 'disk', 'ok'), ('here', 'checkpoints', 'ok'), ('all', 'Slurm', 'ok'), ('all', 'time', 'warn'), ('all', 'compute nodes', 'unknown')}"
code 0 jobctl doctor train.yaml --json --set max_duration=9m
json "('time', 'ok') in {(r['check'], r['status']) for r in o['rows']}"
sick() { # TEXT ARGUMENT...: the doctor fails, and a row of it says so
    local text=$1
    shift
    code 1 jobctl doctor train.yaml "$@"
    tr -s ' \n' ' ' <out | grep -qF "fail all $text" || { cat out; exit 1; }
}
sick 'Slurm resources.nodes is 9, but of 1 nodes 1 are in service and 1 fit' --set resources.nodes=9
sick 'partition Slurm has no partition gpu; its partitions: main' --set slurm.partition=main,gpu
sick 'Slurm resources.nodes is 1 with 3 GPUs, but of 1 nodes 1 are in service and 0 fit' --set resources.gpus=3
: >empty.conf
SLURM_CONF=$WORK/empty.conf sick "Slurm SLURM_CONF is $WORK/empty.conf"
scontrol update NodeName=node1 State=DRAIN Reason=disks
sick 'Slurm resources.nodes is 1, but of 1 nodes 0 are in service and 0 fit'
scontrol update NodeName=node1 State=RESUME
code 0 jobctl render train.yaml
for line in '--partition=main' '--time=10' '--mem=1G' '--cpus-per-task=1' '--signal=B:USR2@30' '--comment=jobctl:0.1:0'; do
    has "#SBATCH $line" out
done
lacks '{{' out
bash -n out
code 0 jobctl render train.yaml --set slurm.account=vision --set resources.gpus=2 --set slurm.extra.qos=long
for line in '--account=vision' '--gpus-per-node=2' '--qos=long'; do has "#SBATCH $line" out; done
code 0 jobctl render train.yaml --set resources.gpus=2 --set slurm.gres=gpu:a100
has '#SBATCH --gres=gpu:a100:2' out
lacks 'gpus-per-node' out
code 0 jobctl plan train.yaml
has 'planned after placement' out

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
wait_for "job $first runs" job_is "$first" state running
second=$(jobctl submit sleep.yaml -q)
wait_for 'is pending: Resources (no suitable node is' says 'is pending: Resources (no suitable node is' jobctl status
code 0 jobctl why "$second"
has "Slurm job $(slurm_id "$second")" out
kill_daemon
wait_for 'is pending: Resources' says 'is pending: Resources' jobctl why "$second"
[ "$(squeue -h -a -o %k | grep -c "^jobctl:$second\.")" = 1 ]
jobctl cancel "$second"
code 3 jobctl wait "$second" --timeout 60
code 0 jobctl why "$first"
has 'is running' out
jobctl cancel "$first"
code 3 jobctl wait "$first" --timeout 60
queue_is_empty() { squeue -h; [ -z "$(squeue -h)" ]; }
wait_for "Slurm has no job" queue_is_empty

# What Slurm refuses ends with its words.
id=$(jobctl submit sleep.yaml -q --set slurm.partition=nowhere --set "retry={max: 0}")
jobctl wait "$id" --timeout 60 && exit 1
code 0 jobctl why "$id"
has 'slurm.partition: nowhere does not exist' out

# Before its time is over the ranks save and stop, and a new allocation goes on from there.
id=$(jobctl submit train.yaml -q --set train.steps=100000000 --set name=long)
wait_for "a checkpoint of job $id" job_has "$id" checkpoint
scancel --batch --signal=USR2 "$(slurm_id "$id")"
wait_for "attempt 2 of job $id" job_is "$id" attempt 2
wait_for "job $id runs" job_is "$id" state running
code 0 jobctl logs --events "$id"
has 'the machine shuts down soon' out
from=$(resumed "$id")
[ "$from" -gt 0 ]

# Its agent calls, with a key that is for nobody else, and nowhere but there.
call=$JOBCTL_HOME/jobs/$id/2/call.json
wait_for 'Its agent is connected over TLS, from ' says 'Its agent is connected over TLS, from ' jobctl why "$id" --json
[ "$(stat -c %a "$call") $(stat -c %a "${call%/*}")" = "600 700" ]
field key <"$call" >key
[ "$(wc -c <key)" -ge 64 ]
[ "$(places key)" = "${call#"$WORK/"}" ]

# A secret goes into the ranks and a private file. A daemon that has it in its own environment keeps it from Slurm.
kill_daemon
head -c 15 /dev/urandom | od -An -tx1 | tr -d ' \n' >token
cat >secret.yaml <<'YAML'
launch: slurm
resources: {gpus: 0, cpus: 1}
secrets: [API_TOKEN]
run: test -n "$API_TOKEN" && touch "$HAS"; exec sleep 1000
YAML
API_TOKEN=$(cat token) jobctl daemon --detach
id2=$(API_TOKEN=$(cat token) jobctl submit secret.yaml -q --set "env.HAS=$WORK/has")
wait_for "the rank has the secret" test -e has
code 0 places token
printf '%s\n' "${JOBCTL_HOME#"$WORK/"}/jobs/$id2/secrets.env" 'process jobctl' 'process jobctl-slurm' 'process sleep' |
    sort | diff - <(sort out)
dropped "$id2"

# A way that is closed is told, and files are used; open again, it is taken again.
kill_daemon
JOBCTL_CALL_ADDRESS=240.0.0.1 JOBCTL_CALL_WAIT_S=4 jobctl daemon --detach
id3=$(API_TOKEN=$(cat token) jobctl submit secret.yaml -q --set "env.HAS=$WORK/has-too")
wait_for 'through files in its directory, because it cannot connect here (240.0.0.1 port ' says 'through files in its directory, because it cannot connect here (240.0.0.1 port ' jobctl why "$id" --json
[ -z "$(places key)" ]      # it had a new one
trains "$id"
wait_for "the rank has the secret, which is in no message" test -e has-too
code 0 places token
printf '%s\n' 'process sleep' "${JOBCTL_HOME#"$WORK/"}/jobs/$id3/secrets.env" | sort | diff - <(sort out)
dropped "$id3"
[ -z "$(places token)" ]
code 0 jobctl status --json
json "'through files' in o['jobs'][0]['agent_channel'] and 'through files' in o['jobs'][0]['reason']"
python3 - "$call" <<'PY'
import json, os, sys
said = json.load(open(sys.argv[1]))
said["addresses"] = ["127.0.0.1"]
with open(os.open(sys.argv[1] + ".mine", os.O_CREAT | os.O_WRONLY, 0o600), "w") as f:
    json.dump(said, f)
os.rename(sys.argv[1] + ".mine", sys.argv[1])
PY
wait_for 'its agent is heard over TLS, from 127.0.0.1' heard "$id" 'over TLS, from 127.0.0.1'
trains "$id"

# A rank dies: its allocation is healthy, and the job goes on in it.
kill -KILL "$(last_event "$id" kind=rank_started pid)"
wait_for "generation 2 of job $id" job_is "$id" generation 2
trains "$id"

# slurmctld killed, then the daemon: the ranks train on, and are found again.
cluster killctl
kill_daemon
trains "$id"
cluster startctl
wait_for "job $id runs" job_is "$id" state running
trains "$id"
wait_for 'its agent is heard over TLS, from ' heard "$id" 'over TLS, from '
code 0 jobctl show "$id" --json
json "o['job']['attempt'] == 2 and o['job']['generation'] == 2"
code 0 jobctl logs --events "$id" --json
json "sum(e['kind'] == 'generation_started' for e in o['events']) == 3"
dropped "$id"
