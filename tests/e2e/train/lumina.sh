# SPDX-License-Identifier: Apache-2.0
# The other family: Next-DiT learns, with the bits of one rank on three, however they share the state and although one
# of them is killed; it draws what it has learnt; incompatible sizes are refused.
. "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/events.sh"
cat >"$WORK/job.yaml" <<YAML
name: lumina
resources: {ranks: 3, gpus: 0}
env: {OMP_NUM_THREADS: "1"}
train:
  model: {family: lumina, preset: lumina-tiny}
  data: {path: $TOP/templates/data/tango-icons, caption_words: 4, caption_channels: 32}
  batch: {global: 6, micro: 2}
  steps: 120
  optimizer: {lr: 1e-3}
  flow: {shift: 1}
  reproducible: true
  sample: {after: true, count: 4, steps: 4, cfg: 1.5}
checkpoint: {every: 1000000 steps}
retry: {backoff: 0.05s..0.1s}
YAML
bits() { cat "$JOBCTL_HOME/jobs/$1"/checkpoints/step-00000120/{model,optimizer}.safetensors | sha256sum; }
loss() { sed -n "s|^step $2.*loss \([0-9.]*\).*|\1|p" "$JOBCTL_HOME/jobs/$1/1/rank0.log" | tail -n 1; }

jobctl submit -q "$WORK/job.yaml" --set resources.ranks=1 --wait
awk "BEGIN {exit !($(loss 1 120/) < 0.9 * $(loss 1 1/))}"
grep -q '^pictures: ' "$JOBCTL_HOME/jobs/1/1/rank0.log"
[ -s "$JOBCTL_HOME/jobs/1/checkpoints/samples/step-00000120.png" ]
code 0 jobctl-train sample --dir "$JOBCTL_HOME/jobs/1/checkpoints" --captions "face smile" --out "$WORK/drawn.png"
[ -s "$WORK/drawn.png" ]
job=2
for parallel in ddp fsdp; do
    jobctl submit -q "$WORK/job.yaml" --set train.parallel=$parallel
    until_step $job 5 1
    kill -9 "$(rank_pid $job 0)"
    jobctl wait $job
    [ "$(bits 1)" = "$(bits $job)" ]
    job=$((job + 1))
done
code 2 jobctl submit "$WORK/job.yaml" --set train.model.kv_heads=3
has 'train.model.kv_heads: 3 does not divide model.heads, which is 4' err
code 2 jobctl submit "$WORK/job.yaml" --set train.model.preset=tiny
has 'preset tiny belongs to the family sana' err
