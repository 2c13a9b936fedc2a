# SPDX-License-Identifier: Apache-2.0
# The disk of the checkpoints is full.  Curves and logs of samples do without it: one warning, and the same bits.
. "$TOP/tests/e2e/events.sh"
${CC:-cc} -D_GNU_SOURCE -shared -fPIC -o "$WORK/disk.so" "$TOP/tests/fake/disk.c" -ldl

# job NAME TEXT [RETRY [RANKS]]: while the file NAME.full is there, paths with TEXT in them are on a full disk
job() {
    cat >"$WORK/$1.yaml" <<YAML
name: $1
env: {LD_PRELOAD: $WORK/disk.so, FAKE_DISK_FULL: "$2:$WORK/$1.full", OMP_NUM_THREADS: 1}
resources: {gpus: 0, ranks: ${4:-1}}
train:
  model: {preset: tiny}
  data: {path: $TOP/templates/data/tango-icons, caption_words: 4, caption_channels: 32, sample_log: true}
  batch: {global: 4, micro: 2}
  steps: 40
  ema: 0.9
  seed: 5
  reproducible: true
  sample: {after: false}
checkpoint: {every: 10 steps, keep: 9, dir: $WORK/$1}
retry: {max: 3, backoff: 0.05s..0.1s${3:-}}
YAML
    jobctl submit -q "$WORK/$1.yaml"
}
same() { # NAME: the bits of the undisturbed run
    local f
    for f in model.safetensors optimizer.safetensors; do
        cmp "$WORK/plain/step-00000040/$f" "$WORK/$1/step-00000040/$f"
    done
}
job plain /nowhere
jobctl wait 1

# No room for the logs alone, from the start to the end.
touch "$WORK/curve.full" "$WORK/samples.full"
job curve /curve/metrics.jsonl
job samples /samples/sample-log
jobctl wait 2 3
for name in curve samples; do
    same $name
done
for id in 2 3; do
    [ "$(events_of $id kind=warning text | grep -c 'No space left on device; training goes on')" = 1 ]
    [ "$(job_field $id attempt)" = 1 ]
done
[ ! -e "$WORK/curve/metrics.jsonl" ]
