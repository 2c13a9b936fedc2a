# SPDX-License-Identifier: Apache-2.0
# Four kills, four sizes: the sample log shows each sample of an epoch exactly once; a false log, or wrong data, gives
# exit code 65.
. "$TOP/tests/e2e/expect.sh"
python3 "$TOP/tests/e2e/pictures.py" "$WORK/data"
cat >"$WORK/job.json" <<JSON
{"schema":1,"train":{"model":{"preset":"tiny"},"data":{"path":"$WORK/data","multi_scale":true,
 "sample_log":true,"resolution":32,"caption_words":4,"caption_channels":32},
 "batch":{"global":8,"micro":2},"steps":60,"optimizer":{"lr":1e-3},"sample":{"after":false}},
 "checkpoint":{"every":{"steps":3},"keep":9,"dir":"$WORK/run"},"hang":{"step":5,"first_step":60}}
JSON
# begin N: N ranks in the background; sets $pids
begin() {
    pids=
    for r in $(seq 0 $(($1 - 1))); do
        RANK=$r WORLD_SIZE=$1 JOBCTL_RUN_DIR="$WORK" OMP_NUM_THREADS=1 JOBCTL_EVENT_FD=9 \
            jobctl-train train --spec "$WORK/job.json" 9>"$WORK/$r.events" >>"$WORK/run.log" 2>&1 &
        pids="$pids $!"
    done
}
# until_step N: rank 0 has told of a step >= N
until_step() {
    WAIT_PAUSE_S=0.003 wait_for "step $1" past_step "$WORK/0.events" "$1" || { cat "$WORK/run.log"; exit 1; }
}
finish() { for p in $pids; do wait "$p" || true; done; }
# harm N STEP K: N ranks; the K-th of them is killed at the step
harm() {
    begin "$1"
    until_step "$2"
    kill -9 "$(echo $pids | cut -d' ' -f"$3")"
    finish
}
harm 3 7 2
harm 2 16 1
harm 5 25 5
harm 3 37 3
begin 1
finish
[ -e "$WORK/run/step-00000060/manifest.json" ]
[ "$(ls "$WORK/run/sample-log" | wc -l)" = 5 ]

code 0 jobctl-train verify-data --spec "$WORK/job.json" --dir "$WORK/run"
has 'data        53 samples' out
has 'sample log  steps 1 to 60 with 4 different numbers of ranks, 480 samples, 9.06 epochs: each exactly once an epoch' out
code 0 jobctl-train verify-data --json --spec "$WORK/job.json" --dir "$WORK/run"
json 'o["good"] and o["sample_log"]["samples"] == 480 and o["sample_log"]["wrong"] == 0'

# A sample too many, a sample too few.
cp -r "$WORK/run" "$WORK/keep"
sed -i 's/"samples":\[\([0-9]*\),[0-9]*/"samples":[\1,\1/; q' "$WORK/run/sample-log/rank-00001.jsonl"
code 65 jobctl-train verify-data --spec "$WORK/job.json" --dir "$WORK/run"
has 'occurs twice in epoch' out
has 'some not exactly once an epoch' out
rm -r "$WORK/run"
mv "$WORK/keep" "$WORK/run"

# Other pictures than the run was trained on.
echo '{"file":"p07.png","text":"one more"}' >>"$WORK/data/captions.jsonl"
code 65 jobctl-train verify-data --spec "$WORK/job.json" --dir "$WORK/run"
has 'has changed since step 60' out

# All that is wrong with a folder, at once.
echo '{"file":"gone.png","text":"never was"}' >>"$WORK/data/captions.jsonl"
echo 'no json' >>"$WORK/data/captions.jsonl"
printf 'PNG it is not' >"$WORK/data/bad.png"
head -c 300 "$WORK/data/p14.png" >"$WORK/data/cut.png"
cat >>"$WORK/data/captions.jsonl" <<'LINES'
{"file":"bad.png","text":"x"}
{"file":"cut.png","text":"a caption of many words that go on"}
{"file":"p21.png","text":" "}
LINES
code 65 jobctl-train verify-data --spec "$WORK/job.json"
has 'captions.jsonl:55' out
has 'captions.jsonl:56' out
grep -Eq '^error +bad.png +is not a picture' "$WORK/out"
grep -Eq '^error +cut.png ' "$WORK/out"
grep -Eq '^notice +cut.png +the caption has 8 words; data.caption_words keeps 4' "$WORK/out"
grep -Eq '^notice +p21.png +the caption is empty' "$WORK/out"
grep -Eq '^notice +p07.png +has the same bytes as p07.png' "$WORK/out"
has '4 errors, ' out

# Features: a number that is not finite, and a mask that is none.
mkdir "$WORK/shards"
features() { python3 "$TOP/tests/e2e/features.py" "$WORK/shards/good.safetensors" 48 4 32 17:4x16 18:8x8 18:16x4; }
features
python3 - "$WORK/shards" <<'PY'
import json, struct, sys
data = bytearray(open(sys.argv[1] + '/good.safetensors', 'rb').read())
size = struct.unpack('<Q', data[:8])[0]
at = {k: 8 + size + v['data_offsets'][0] for k, v in json.loads(data[8:8 + size]).items() if k != '__metadata__'}
struct.pack_into('<f', data, at['latent.1'] + 40, float('nan'))
struct.pack_into('<f', data, at['mask.2'], 0.5)
open(sys.argv[1] + '/bad.safetensors', 'wb').write(data)
PY
sed "s|$WORK/data|$WORK/shards|; s|\"resolution\":32|\"encoders\":\"features\"|" "$WORK/job.json" >"$WORK/features.json"
code 65 jobctl-train verify-data --spec "$WORK/features.json"
grep -Eq '^error +bad.safetensors#1.0 +1 of [0-9]+ numbers of its latent are not finite; the first is number 10' "$WORK/out"
grep -Eq '^error +bad.safetensors#2.0 +its mask holds 0.5; expected 0 or 1' "$WORK/out"
has '2 errors, 0 notices' out
rm "$WORK/shards/bad.safetensors"
code 0 jobctl-train verify-data --spec "$WORK/features.json"
truncate -s 9000 "$WORK/shards/good.safetensors"
code 65 jobctl-train verify-data --spec "$WORK/features.json"

# By file and by job.
cat >"$WORK/job.yaml" <<YAML
train:
  data: {path: $WORK/shards, encoders: features, multi_scale: true, sample_log: true}
  batch: {global: 8}
  steps: 9
resources: {ranks: 2, gpus: 0}
checkpoint: {every: 4 steps}
YAML
code 65 jobctl verify-data "$WORK/job.yaml"
has 'error   good.safetensors ' out
features
code 0 jobctl verify-data "$WORK/job.yaml"
code 0 jobctl submit --wait "$WORK/job.yaml"
code 0 jobctl verify-data last
has 'sample log  steps 1 to 9, 72 samples, ' out
code 0 jobctl verify-data last --json
json 'o["good"] and o["sample_log"]["last_step"] == 9'
code 2 jobctl verify-data last --set train.steps=4
code 2 jobctl verify-data "$WORK/job.yaml" --set train.data.path=/nowhere
code 3 jobctl verify-data no-such-job

# A rank of a job is killed, and the job goes on from memory: still each sample once.
. "$TOP/tests/e2e/events.sh"
sed -i 's/steps: 9/steps: 400/; s/every: 4 steps/every: 1000000 steps/' "$WORK/job.yaml"
printf 'retry: {backoff: 0.05s..0.1s}\nhang: {step: 1h}\n' >>"$WORK/job.yaml"
jobctl submit -q "$WORK/job.yaml"
until_step 2 30
kill -9 "$(rank_pid 2 1)"
code 0 jobctl wait 2
wait_event 2 kind=rank_started generation=2 >"$WORK/event"
[ "$(field resume_step <"$WORK/event")" -ge 29 ]
code 0 jobctl verify-data 2
has 'sample log  steps 1 to 400, 3200 samples, ' out
has 'each exactly once an epoch' out
