# SPDX-License-Identifier: Apache-2.0
# jobctl-train selftest: a trained model passes; each wrong part fails separately, and missing parts are not run.
cd "$WORK"
icons=$TOP/templates/data/tango-icons
mkdir pics
python3 "$TOP/deploy/toy_sana.py" toy "$icons"
for name in face-monkey printer; do # without transparency, which encoders: sana drops
    cp "$icons/$name.txt" pics/
    jobctl-train vae encode --weights toy --in "$icons/$name.png" --out z.npy >/dev/null
    jobctl-train vae decode --weights toy --in z.npy --out "pics/$name.png" >/dev/null
done
train() { # NAME STEPS
    cat >"$1.json" <<JSON
{"schema":1,"train":{"model":{"preset":"icons","patch":2,"depth":2},"batch":{"global":16},"steps":$2,"caption_dropout":0.5,
 "optimizer":{"lr":0.003},"data":{"path":"$WORK/pics","encoders":"sana","vae":"$WORK/toy","text_encoder":"$WORK/toy",
 "text_rows":12}},"checkpoint":{"every":{"steps":1000},"dir":"$WORK/$1"}}
JSON
    OMP_NUM_THREADS=1 jobctl-train train --spec "$1.json" >"$1.log" 2>&1 || { cat "$1.log"; exit 1; }
    jobctl-train export --dir "$1" --out "$1.model" >/dev/null
    cp -r toy/. "$1.model/"
}
# says CODE ROW... -- OPTIONS: the exit code and, of each row, its part and result
says() {
    local code=$1 got=0
    shift
    jobctl-train selftest "${@:4}" >said 2>&1 || got=$?
    if [ "$got" = "$code" ] && grep -q "^text encoder *$1 " said && grep -q "^autoencoder *$2 " said &&
        grep -q "^transformer *$3 " said; then
        return
    fi
    echo "expected $code: $1, $2, $3; $got of selftest ${*:4}"
    cat said
    exit 1
}

train good 120
train young 1
null=good/step-00000120/model.safetensors
common="--picture pics/face-monkey.png --size 32"
says 0 ok ok ok --weights good.model --null "$null" $common --caption "face monkey"
cat said
says 0 'not run' ok ok --weights good.model $common --caption "face monkey"
grep -q 'name the authors. .pth with --null FILE' said
says 1 ok ok failed --weights young.model --null "$null" $common --caption "face monkey"

# Another text encoder, and another autoencoder.
cp -r good.model text && python3 - text/text_encoder/model.safetensors <<'PY'
import sys
path = sys.argv[1]
data = bytearray(open(path, 'rb').read())
data[-120000:-60000] = bytes(60000)
open(path, 'wb').write(data)
PY
says 1 failed ok ok --weights text --null "$null" $common --caption "face monkey"
cp -r good.model vae && python3 - vae/vae/diffusion_pytorch_model.safetensors <<'PY'
import json
import struct
import sys
path = sys.argv[1]
data = bytearray(open(path, 'rb').read())
n = struct.unpack('<Q', data[:8])[0]
a, b = json.loads(data[8:8 + n])['decoder.conv_in.weight']['data_offsets']
data[8 + n + a:8 + n + (a + b) // 2] = bytes((a + b) // 2 - a)
open(path, 'wb').write(data)
PY
says 1 ok failed ok --weights vae --null "$null" $common --caption "face monkey"

says 1 'not run' 'not run' 'not run' --weights nowhere
! jobctl-train selftest --weights good.model --size x >said 2>&1 || exit 1
grep -q 'size x: expected pixels, from 32 to 4096' said
