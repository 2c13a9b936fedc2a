# SPDX-License-Identifier: Apache-2.0
# train.lora: adapters of frozen weights compute the same with ddp, zero1 and fsdp, on any number of ranks, with AdamW
# and CAME, and across resumes; the frozen weights must be the same at each start.
. "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/ranks.sh"
cd "$WORK"
spec() { # NAME STEPS PARALLEL BASE
    cat >"$1.json" <<JSON
{"schema":1,"train":{"model":{"preset":"tiny","weights":"$WORK/$4"},
 "lora":{"rank":3,"alpha":6,"targets":["to_q","to_v","conv_point"]},
 "data":{"path":"$TOP/templates/data/tango-icons","caption_words":4,"caption_channels":32},
 "batch":{"global":7,"micro":2},"steps":$2,"ema":0.9,"optimizer":{"type":"${OPTIMIZER:-adamw}","lr":1e-2},
 "parallel":"$3","reproducible":true,"sample":{"after":${PICTURES:-false},"count":2,"steps":2}},
 "checkpoint":{"every":{"steps":3},"keep":9,"dir":"$WORK/$1"}}
JSON
}
ranks() { # N NAME STEPS PARALLEL: to the end
    spec "$2" "$3" "$4" base/step-00000002
    run_ranks "$1" "$2"
}
bits() { cat "$1"/step-00000006/{model,optimizer}.safetensors | sha256sum; }
same() { [ "$(bits "$1")" = "$(bits "$2")" ] || { echo "$2 has other bits than $1"; exit 1; }; }

cat >base.json <<JSON
{"schema":1,"train":{"model":{"preset":"tiny"},"data":{"path":"$TOP/templates/data/tango-icons","caption_words":4,
 "caption_channels":32},"batch":{"global":4},"steps":2,"sample":{"after":false}},
 "checkpoint":{"every":{"steps":1},"dir":"$WORK/base"}}
JSON
code 0 jobctl-train train --spec base.json

PICTURES=true ranks 1 one 6 ddp
cp one.log out
has 'frozen: Sana (depth 2, 64 channels), 47 tensors (F32), Sana, the authors'"'"' names, from ' out
has 'model: 4416 parameters' out # of a block 4 x 3 x (64 + 64) and 3 x (160 + 64)
has 'pictures: ' out
for run in "ddp 3" "zero1 2" "fsdp 1" "fsdp 3"; do
    set -- $run
    ranks "$2" "$1-$2" 6 "$1"
    same one "$1-$2"
done
OPTIMIZER=came ranks 1 came 6 ddp
OPTIMIZER=came ranks 3 came-fsdp-3 6 fsdp
same came came-fsdp-3

# A checkpoint of one is read by the others.
set -- ddp 2 fsdp 3 zero1 1 fsdp 2 ddp 1
while [ $# -gt 2 ]; do
    ranks "$2" "to-$1-$2" 3 "$1"
    ranks "$4" "to-$1-$2" 6 "$3"
    grep -q 'resumed: step 3' "to-$1-$2.log"
    same one "to-$1-$2"
    shift 2
done

# The adapters learn: with another start the loss would not fall.
python3 - one/metrics.jsonl <<'PY'
import json, sys
loss = [json.loads(l)['loss'] for l in open(sys.argv[1])]
assert len(loss) == 6 and loss[-1] < loss[0], loss
PY

code 0 jobctl-train sample --dir one --count 2 --steps 2 --out one.png

# Other weights below: refused, with both digests.
spec one 8 ddp base/step-00000001
code 64 jobctl-train train --spec one.json
has 'train.model.weights: these are not the weights that ' err
has 'step-00000006 was trained on (xxh3:' err
mv base gone
code 64 jobctl-train train --spec one.json
has 'train.model.weights: ' err
code 64 jobctl-train sample --dir one --out one.png
mv gone base

# What a spec cannot mean is said before anything runs.
plan() { # LORA MODEL: the sentence
    printf 'train:\n  model: {%s}\n  lora: {%s}\n  data: {path: %s}\n  steps: 2\n' "$2" "$1" \
        "$TOP/templates/data/tango-icons" >bad.yaml
    code "${3:-2}" jobctl plan bad.yaml
}
export JOBCTL_HOME=$WORK/home
weights="preset: tiny, weights: base/step-00000002"
plan 'alpha: 4' "$weights"
has 'train.lora.rank: missing' err
plan 'rank: 4, targets: [to_x]' "$weights"
has 'train.lora.targets: no layer ends with to_x; the layers are attn1.to_q, ' err
plan 'rank: 4' 'preset: tiny'
has 'train.lora: train.model.weights is missing' err
plan 'rank: 4' 'preset: lumina-tiny, weights: base/step-00000002'
has 'train.lora: not supported for Lumina-Next' err
