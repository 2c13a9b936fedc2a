# SPDX-License-Identifier: Apache-2.0
# A rank of a job with adapters is killed: the next generation reads the frozen weights again, resumes from memory, and
# ends with the bits of an undisturbed run.
. "$TOP/tests/e2e/events.sh"
cd "$WORK"
cat >base.json <<JSON
{"schema":1,"train":{"model":{"preset":"tiny"},"data":{"path":"$TOP/templates/data/tango-icons","caption_words":4,
 "caption_channels":32},"batch":{"global":4},"steps":1,"sample":{"after":false}},
 "checkpoint":{"every":{"steps":1},"dir":"$WORK/base"}}
JSON
jobctl-train train --spec base.json >base.log
spec() { # NAME SHARING
    cat >"$1.yaml" <<YAML
name: $1
resources: {ranks: 2, gpus: 0}
env: {OMP_NUM_THREADS: 1}
train:
  model: {preset: tiny, weights: base/step-00000001}
  lora: {rank: 4}
  data: {path: $TOP/templates/data/tango-icons, caption_words: 4, caption_channels: 32}
  batch: {global: 8}
  steps: 40
  reproducible: true
  parallel: $2
  sample: {after: false}
checkpoint: {every: 1000000 steps, dir: $WORK/$1}
retry: {backoff: 0.05s..0.1s}
hang: {step: 1h}
YAML
}
spec whole ddp
spec killed fsdp
jobctl submit -q --wait whole.yaml
jobctl submit -q killed.yaml --set env.TRAIN_TEST_STOP=1:1:20
pid=$(wait_event 2 kind=rank_started generation=1 rank=1 | field pid)
held "$pid" "$JOBCTL_HOME/jobs/2/1/rank0.flight"
kill -9 "$pid"
jobctl wait 2 --timeout 60
grep -q 'resumed: step [0-9]* from memory' "$JOBCTL_HOME/jobs/2/1/rank0.log"
for f in model optimizer; do cmp {whole,killed}/step-00000040/$f.safetensors; done
