# SPDX-License-Identifier: Apache-2.0
# Sections 3 and 5 of docs/FAILURES.md, with the options written there: a checkpoint of 7 ranks continues on 6, and a
# truncated one is replaced by the previous one. Another job's checkpoint must be named.
. "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/events.sh"
cd "$WORK"
guide=$TOP/docs/FAILURES.md
cat >seven.yaml <<YAML
name: seven
resources: {ranks: 7, gpus: 0, cpus: 2}
train:
  model: {preset: tiny}
  data:  {path: $TOP/templates/data/tango-icons}
  batch: {global: 11}
  steps: 20
  reproducible: true
  sample: {after: false}
checkpoint: {every: 10 steps, dir: ckpt}
YAML
# options FIRST LAST: those of the documented command that has both words
options() { tr '\n' ' ' <"$guide" | grep -o "seven.yaml --set name=$1[^;]*$2" | tail -n 1 | cut -d ' ' -f 2- | tr -d '\\'; }

code 0 jobctl submit seven.yaml --wait
read -ra six <<<"$(options six resume=ckpt/step-00000020)"
[ ${#six[@]} = 8 ]
code 1 jobctl submit seven.yaml "${six[@]:0:6}" --wait
has "ckpt/step-00000020 was written by another job (seven): set another checkpoint.dir for this job, or continue from it" out
has "ckpt/step-00000020\`; not retried" out
code 0 jobctl submit seven.yaml "${six[@]}" --wait
code 0 jobctl logs last
has "resumed: step 20 from $WORK/ckpt/step-00000020" out
code 0 jobctl verify-resume last --ranks 1,7
[ "$(grep -c "same bits" out)" = 2 ]

read -ra again <<<"$(options again checkpoint.dir=again)"
[ ${#again[@]} = 6 ]
jobctl submit -q seven.yaml "${again[@]}"
wait_event 4 kind=checkpoint >/dev/null
jobctl cancel again
jobctl wait again || [ $? = 3 ]
truncate -s 1000 "$(find again -name 'step-*' | sort | tail -n 1)/model.safetensors"
jobctl retry again
wait_event 5 kind=quarantined >/dev/null
wait_event 5 kind=rank_started rank=0 >/dev/null
code 0 jobctl logs --events 5
has "quarantined: model.safetensors has 1000 bytes, the manifest says" out
grep -q "rank 0 started, pid [0-9]*, at step [1-9]" out
jobctl cancel 5
jobctl wait 5 || [ $? = 3 ]
