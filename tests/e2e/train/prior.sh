#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Prior preservation: the loss of a step is the loss of the pictures plus a weight times that of the prior pictures, and
# so are its gradients; the same bits on several ranks, with every sharing, and after a resume. A folder's pictures have
# one caption.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
mkdir dog class
n=0
for f in "$TOP"/templates/data/tango-icons/*.png; do
    n=$((n + 1))
    if [ $n -le 5 ]; then cp "$f" dog; elif [ $n -le 12 ]; then cp "$f" class; fi
done
cat >base.json <<JSON
{"schema":1,"train":{"model":{"preset":"tiny"},"data":{"path":"$TOP/templates/data/tango-icons","caption_words":4,
 "caption_channels":32},"batch":{"global":4},"steps":1,"sample":{"after":false}},
 "checkpoint":{"every":{"steps":1},"dir":"$WORK/base"}}
JSON
jobctl-train train --spec base.json >base.log
spec() { # NAME SEED DATA PRIOR [WEIGHT] [KEYS]; PRIOR -: none
    local prior=
    [ "$4" = - ] || prior="\"prior\":{\"path\":\"$WORK/$4\",\"prompt\":\"a photo of a $4\",\"weight\":$5},"
    cat >"$1.json" <<JSON
{"schema":1,"train":{"model":{"preset":"tiny","weights":"$WORK/base/step-00000001"},"data":{"path":"$WORK/$3",
 "prompt":"a photo of a $3","caption_words":4,"caption_channels":32,"resolution":32},$prior${6-}"batch":{"global":8},
 "steps":4,"seed":$2,"reproducible":true,"optimizer":{"lr":1e-2},"sample":{"after":false}},
 "checkpoint":{"every":{"steps":2},"dir":"$WORK/$1"}}
JSON
}
run() { spec "$@"; OMP_NUM_THREADS=1 jobctl-train train --spec "$1.json" >"$1.log" 2>&1 || { cat "$1.log"; exit 1; }; }
same() { for f in model optimizer; do cmp "$1/step-00000004/$f.safetensors" "$2/step-00000004/$f.safetensors"; done; }

# other: the seed of prior pictures (engine/train/train_input.c), whose own prior pictures have seed 7
other=$((7 ^ 0x5072696f))
run dogs 7 dog -
run classes $other class -
run half 7 dog class 0.5
has 'prior: 7 samples of ' half.log
python3 - <<'PY'
import json
first = lambda d: json.loads(open(d + "/metrics.jsonl").readline())["loss"]
dogs, classes, half = map(first, ("dogs", "classes", "half"))
assert abs(dogs + 0.5 * classes - half) < 1e-6 * half, (dogs, classes, half)
assert abs(dogs - half) > 0.01 * half, (dogs, half)
PY
run none 7 dog class 0
same none dogs
run one 7 dog class 1
run turned $other class dog 1
same one turned
! cmp -s one/step-00000004/model.safetensors half/step-00000004/model.safetensors || exit 1

# several ranks; more of them than micro-batches, too
ranks() { # N NAME
    local r pids=
    for ((r = 1; r < $1; r++)); do
        RANK=$r WORLD_SIZE=$1 JOBCTL_RUN_DIR="$WORK" MASTER_PORT="$2" OMP_NUM_THREADS=1 jobctl-train train \
            --spec "$2.json" >"$2.$r.log" 2>&1 &
        pids="$pids $!"
    done
    RANK=0 WORLD_SIZE=$1 JOBCTL_RUN_DIR="$WORK" MASTER_PORT="$2" OMP_NUM_THREADS=1 jobctl-train train --spec "$2.json" \
        >"$2.0.log" 2>&1 || { cat "$2".*.log; exit 1; }
    for r in $pids; do wait "$r"; done
}
spec shared 7 dog class 0.5 '"parallel":"fsdp",'
ranks 3 shared
same half shared
# resumed in the middle
rm -r shared/step-00000004
ranks 2 shared
grep -q 'resumed: step 2 from' shared.0.log
same half shared

# what is not possible
spec wrong 7 dog class 0.5 && sed -i "s|\"path\":\"$WORK/class\",||" wrong.json
! jobctl-train train --spec wrong.json 2>err || exit 1
has 'train.prior.path: missing; name a folder of pictures' err

# jobctl submit finds the folder from the file's own, and refuses one that is not there
mkdir -p job && cp -r class job/
cat >job/dog.yaml <<YAML
train:
  model: {preset: tiny}
  data: {path: $WORK/dog, resolution: 32}
  prior: {path: class, prompt: a photo of a class}
  steps: 2
YAML
code 0 jobctl submit --dry-run --json job/dog.yaml
grep -q "\"path\": *\"$WORK/job/class\"" out
code 2 jobctl submit job/dog.yaml --set train.prior.path=cats
has "train.prior.path: $WORK/job/cats does not exist" err
