# SPDX-License-Identifier: Apache-2.0
# Inputs of a run: precomputed features, another run's weights, a command to write a checkpoint; and a checkpoint that
# draws after its data is gone.
cd "$WORK"
cp -r "$TOP/templates/data/tango-icons" data
spec() { # NAME DATA-MEMBERS TOP-MEMBERS
    cat >"$1.json" <<JSON
{"schema":1,"train":{"model":{"preset":"tiny"},"data":{$2},"batch":{"global":5},"steps":6,
 "sample":{"after":false}}${3:+,$3},"checkpoint":{"every":{"steps":100},"dir":"$WORK/$1"}}
JSON
}

spec pictures "\"path\":\"$WORK/data\",\"caption_words\":4"
jobctl-train plan --json --spec pictures.json >plan
grep -q '"samples":24,"batches_per_epoch":4,"leftover_per_epoch":4,' plan
grep -q '"batch":5,"micro_batch":5' plan
jobctl-train train --spec pictures.json >log
bytes=$(sed 's/.*"checkpoint_bytes":\([0-9]*\).*/\1/' plan)
wrote=$(cat pictures/step-00000006/*.safetensors | wc -c)
[ "$wrote" -ge "$bytes" ]
[ "$wrote" -lt $((bytes + 40000)) ] # headers

mkdir shards
python3 "$TOP/tests/e2e/features.py" shards/one.safetensors 48 4 64 24:12x12
spec features "\"path\":\"$WORK/shards\",\"encoders\":\"features\""
jobctl-train train --spec features.json >log
[ -e features/step-00000006/manifest.json ]
truncate -s 20000 shards/*.safetensors
rc=0
jobctl-train train --spec features.json 2>err || rc=$?
[ $rc = 65 ]
grep -q 'shards/one.safetensors' err

# Weights of another run, by directory and by file; counters begin at 0.
warm() { # NAME WEIGHTS
    spec "$1" "\"path\":\"$WORK/data\",\"caption_words\":4"
    sed -i "s|\"preset\":\"tiny\"|&,\"weights\":\"$2\"|" "$1.json"
}
warm warm "$WORK/pictures/step-00000006"
jobctl-train train --spec warm.json >log
warm warm2 "$WORK/pictures/step-00000006/model.safetensors"
jobctl-train train --spec warm2.json >log
grep -q "weights: Sana (depth 2, 64 channels), 47 tensors (F32), Sana, the authors' names, from " log
cmp warm/step-00000006/model.safetensors warm2/step-00000006/model.safetensors
if cmp -s warm/step-00000006/model.safetensors pictures/step-00000006/model.safetensors; then exit 1; fi
sed 's/"preset":"tiny"/"preset":"tiny","hidden":32,"heads":1/' warm.json | sed "s#$WORK/warm#$WORK/warm3#" >warm3.json
rc=0
jobctl-train train --spec warm3.json 2>err || rc=$?
[ $rc = 64 ]
grep -q "train.model.weights: .* this is Sana (depth 2, 64 channels), the spec says Sana (depth 2, 32 channels)" err

# resume: PATH begins there; "checkpoint" writes one now; closing the command pipe stops the run.
spec told "\"path\":\"$WORK/data\",\"caption_words\":4" "\"resume\":\"$WORK/pictures/step-00000006\""
sed -i 's/"steps":6/"steps":1000000/; s/"steps":100}/"steps":1000000}/' told.json # none but what is asked for
mkfifo events commands
JOBCTL_EVENT_FD=9 JOBCTL_CONTROL_FD=7 jobctl-train train --spec told.json 9>events 7<commands >log 2>&1 &
pid=$!
exec 8<events 6>commands
echo '{"cmd":"checkpoint"}' >&6 # while pictures are encoded, and kept until there is a step
while read -r -u 8 line; do
    case $line in
    *'"ev":"started"'*) [[ $line == *'"resume_step":6,'* ]] ;;
    *'"ev":"checkpoint"'*) break ;;
    esac
done
exec 6>&-
rc=0
while read -r -u 8 line; do last=$line; done
wait $pid || rc=$?
exec 8<&-
[ $rc = 75 ]
[[ $last == *'"cause":"preempted","exit_code":75'* ]]
[ "$(ls -d told/step-* | wc -l)" = 2 ]

# A stop ends the encoding after the picture it is at; the next start encodes them all. Here the
# agent is gone before it begins.
spec stopped "\"path\":\"$WORK/data\",\"caption_words\":5"
rc=0
JOBCTL_CONTROL_FD=7 jobctl-train train --spec stopped.json 7</dev/null >log 2>&1 || rc=$?
[ $rc = 75 ]
grep -q 'stopped on request with 1 of 24 pictures encoded' log
jobctl-train train --spec stopped.json >log
grep -q 'block DCT + hashed captions$' log

# The checkpoint draws without its data.
rm -r data
jobctl-train sample --dir pictures --captions "face smile; a thing nobody saw" --out own.png 2>err
[ "$(head -c 4 own.png | tail -c 3)" = PNG ]
rc=0
jobctl-train sample --dir pictures --score 2>err || rc=$?
[ $rc = 65 ]
grep -q 'the data that .* was trained on' err
