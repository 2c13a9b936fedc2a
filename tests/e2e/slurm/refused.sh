#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A permanent refusal by a real Slurm ends the job at once, after one attempt, with the option, its value and the
# available choices; a temporary refusal makes the job wait, and then it runs.
. "$TOP/tests/slurm/open.sh"
printf '%s\n' 'launch: slurm' 'resources: {gpus: 0}' 'run: "true"' 'slurm: {partition: main}' >job.yaml
# refused TEXT ARGUMENT...: the job ends with the text, after its first attempt
refused() {
    local text=$1 id
    shift
    id=$(jobctl submit -q job.yaml "$@")
    code 1 jobctl wait "$id" --timeout 20
    code 0 jobctl show "$id" --json
    json "o['job']['attempt'] == 1 and o['job']['reason'].startswith(\"\"\"$text\"\"\")"
    [ "$(last_event "$id" kind=start_failed cause)" = slurm_refused ]
    code 0 jobctl logs --events "$id"
    lacks agent_lost out
}
refused 'slurm.partition: gpu does not exist; partitions: main, low, high; not retried' --set slurm.partition=gpu
code 0 jobctl why last
lacks 'could not be started' out
refused 'slurm.extra.constraint: a100 is refused by Slurm: Invalid feature specification' --set slurm.extra.constraint=a100
refused 'slurm.extra.nodelist: node9 is refused by Slurm: Invalid node name specified' --set slurm.extra.nodelist=node9
refused 'resources.nodes: 1, slurm.extra.mem: 900G are refused by Slurm: Requested node configuration is not available' \
    --set slurm.extra.mem=900G

# A partition that takes no jobs now.
scontrol update PartitionName=low State=INACTIVE
id=$(jobctl submit -q job.yaml --set slurm.partition=low)
wait_for "job $id is refused for now" says 'slurm.partition: low is refused by Slurm: ' jobctl why "$id"
says 'next try in 3 s' jobctl status
scontrol update PartitionName=low State=UP
code 0 jobctl wait "$id" --timeout 60
code 0 jobctl show "$id" --json
json "o['job']['attempt'] == 1"
