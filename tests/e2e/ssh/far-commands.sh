# SPDX-License-Identifier: Apache-2.0
# The commands that inspect a job, or try something, through jobctl -H: each runs on the far machine with the text of
# the local file, and gives the same output and exit code.
. "$TOP/tests/hosts.sh"
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
export HOST_ENV="PATH=$PATH"
hosts_up far
far() { JOBCTL_HOME=$WORK/laptop jobctl -H far "$@"; }
same() { # CODE ARGUMENTS...: here and from afar
    local want=$1
    shift
    (cd far && code "$want" jobctl "$@")
    cp out here.out
    cp err here.err
    code "$want" far "$@"
    diff here.out out
    diff here.err err
}
cat >icons.yaml <<YAML
name: icons
resources: {ranks: 1, gpus: 0, cpus: 1}
train:
  model: {preset: tiny}
  data: {path: $TOP/templates/data/tango-icons, caption_words: 4, caption_channels: 32}
  batch: {global: 4}
  steps: 6
  reproducible: true
  sample: {after: false}
checkpoint: {every: 3 steps}
YAML
cp icons.yaml far/
code 0 far submit -q icons.yaml
code 0 far submit -q icons.yaml --set train.seed=5
code 0 far wait -q 1 2

same 1 diff 1 2
has seed out
same 0 why 1
same 0 logs --events 1
same 0 verify-data icons.yaml
same 0 render icons.yaml --set launch=slurm
same 0 status -a -o id,name,state
same 0 help why
code 0 far verify-resume 1 --ranks 1
has 'same bits' out
code 0 far doctor
has 'other users' out
code 0 far doctor icons.yaml
has data out
code 0 far drill icons.yaml --only kill-rank --set train.steps=400
has 'kill-rank' out
code 0 far show 1 --report report.html # there
[ -s far/report.html ]
code 0 far submit -q - <<'YAML'
name: grid
run: echo "step 1/1 loss=0.$RATE"
resources: {gpus: 0, ranks: 1, cpus: 1}
progress: "step {step}/{steps} loss={loss}"
sweep: {env.RATE: [1, 2]}
YAML
sweep=$(cat out)
code 0 far wait -q "$sweep"
same 0 best "$sweep" --by loss
same 0 status "$sweep"
same 0 logs "${sweep}_1"

# What changes something.
code 0 far submit -q --hold icons.yaml
job=$(cat out)
printf '#!/bin/sh\nsed -i "s/steps: 6/steps: 7/" "$1"\n' >change
chmod +x change
code 0 env EDITOR="$WORK/change" JOBCTL_HOME="$WORK/laptop" jobctl -H far edit "$job"
code 0 far show "$job" --json
json "o['spec']['train']['steps'] == 7"
code 0 far hold --off "$job"
code 0 far wait -q "$job"
code 0 far retry -q 2
code 0 far rm 2 --dry-run
code 0 far nodes
code 0 far notify
code 0 far completions jobs
code 0 far cancel -q --all --yes --now
