# SPDX-License-Identifier: Apache-2.0
# jobctl-train sample --weights: without a job, a diffusers folder draws the picture that the job drew for its prompt;
# with another job's adapters, that job's picture.
. "$TOP/tests/e2e/encoders.sh"
cd "$WORK"
make_pipe pipe
take_pictures pics 5
printf 'Say: ' >chi.txt

# spec NAME MEMBERS OF train
spec() {
    encode_spec "$1.json" "$WORK/pics" "\"instruction\":\"$WORK/chi.txt\",\"text_dtype\":\"fp32\""
    python3 - "$1.json" "$2" <<'PY'
import sys
sys.path.pop(0)
import json
path, more = sys.argv[1:]
job = json.load(open(path))
job['train'].update(steps=4, optimizer={'lr': 0.01}, validate={'prompts': ['a red face'], 'steps': 5})
job['train'].update(json.loads(more))
json.dump(job, open(path, 'w'))
PY
    OMP_NUM_THREADS=1 jobctl-train train --spec "$1.json" >"$1.log" 2>&1 || { cat "$1.log"; exit 1; }
}
draw() { # OUT OPTIONS...
    local out=$1
    shift
    OMP_NUM_THREADS=1 jobctl-train sample --weights "$PWD/model" --prompt 'a red face' -o "$out" --instruction chi.txt \
        --size 32 --steps 5 "$@" >draw.log 2>&1
}
fails() { # WORDS OPTIONS...
    local words=$1
    shift
    ! jobctl-train sample "$@" >said 2>&1 || { echo "not refused: $*"; exit 1; }
    grep -q -- "$words" said || { echo "expected: $words"; cat said; exit 1; }
}

spec base '{}'
jobctl-train export --dir base.json.ckpt --out model >/dev/null
cp -r pipe/* model/ 2>/dev/null
# Rows of captions: 16 in the job, 300 by default, which draws the same, for padding has no effect.
draw one.png || { cat draw.log; exit 1; }
python3 "$TOP/tests/e2e/picture_distance.py" one.png base.json.ckpt/samples/prompt-01.step-00000004.png 2 || exit 1
draw two.png --seed 2
! cmp -s one.png two.png || exit 1
draw again.png && cmp one.png again.png
draw euler.png --sampler euler
! cmp -s one.png euler.png || exit 1

spec lora "{\"model\":{\"weights\":\"$PWD/model\",\"preset\":\"tiny\"},\"lora\":{\"rank\":2,\"base\":\"fp32\"}}"
jobctl-train export --dir lora.json.ckpt --out adapters >/dev/null
draw lora.png --lora adapters || { cat draw.log; exit 1; }
python3 "$TOP/tests/e2e/picture_distance.py" lora.png lora.json.ckpt/samples/prompt-01.step-00000004.png 2 || exit 1
! python3 "$TOP/tests/e2e/picture_distance.py" lora.png one.png 2 >/dev/null || exit 1

fails 'needs --prompt TEXT and --out' --weights "$PWD/model"
fails 'size: 30 x 30; both must be multiples of 4' --weights "$PWD/model" --prompt x --out y.png --size 30
fails 'expected flow_dpm_solver or euler' --weights "$PWD/model" --prompt x --out y.png --sampler ddim
fails "'many' is not a number from 1 to 1000" --weights "$PWD/model" --prompt x --out y.png --steps many
fails 'is no released size' --weights base.json.ckpt/step-00000004/model.safetensors --vae pipe --text-encoder pipe \
    --prompt x --out y.png
sed -i 's/"interpolation_scale": *null/"interpolation_scale": 1.0/' model/transformer/config.json
for verb in "sample --prompt x --out y.png" selftest; do
    ! jobctl-train $verb --weights "$PWD/model" >said 2>&1 || exit 1
    grep -q 'model/transformer/config.json: interpolation_scale is 1.0: position embeddings' said || { cat said; exit 1; }
done
fails 'nowhere' --weights "$PWD/nowhere" --prompt x --out y.png
[ ! -e y.png ]
jobctl-train sample --weights base.json.ckpt/step-00000004/model.safetensors --vae pipe --text-encoder pipe --preset tiny \
    --prompt 'a red face' --out named.png --size 32 --steps 5 --instruction chi.txt >/dev/null 2>&1
