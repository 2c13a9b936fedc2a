# SPDX-License-Identifier: Apache-2.0
# Other data and encoders: several scored captions per picture, several shapes, Lumina-Next's encoders, whose latents
# are drawn and whose empty caption has one row; a pipeline that includes the encoders; output of plan and doctor.
. "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/encoders.sh"
cd "$WORK"
make_pipe pipe
take_pictures pics 6
train() { jobctl-train train --spec "$1.json" >"$1.log" 2>&1 || { cat "$1.log"; exit 1; }; }
losses() { read_json each step loss <"$1.json.ckpt/metrics.jsonl"; }

# Four captions of one picture, of which one is never chosen and one is as that of another.
stem=$(basename "$(find pics -name '*.png' | sort | head -n 1)" .png)
same=$(head -n 1 "pics/$(basename "$(find pics -name '*.png' | sort | tail -n 1)" .png).txt")
printf '{"%s": {"long": "a long caption of it", "bad": "a wrong one", "same": "%s"}}' "$stem" "$same" >"pics/${stem}_vlm.json"
printf '{"%s": {"prompt": 30, "long": 31, "same": 29, "bad": 2}}' "$stem" >"pics/${stem}_score.json"
STEPS=6 encode_spec several.json "$WORK/pics" \
    '"caption_suffixes":["_vlm"],"score_suffixes":["_score"],"score_min":25'
train several
grep -q '6 of 6 pictures and 8 of 8 captions' several.log # of 6 pictures, one more, and the empty one
STEPS=6 encode_spec prompt.json "$WORK/pics"
train prompt
! grep -q 'to be encoded' prompt.log || exit 1
! diff <(losses several) <(losses prompt) || { echo "all epochs had the same caption"; exit 1; }

# Several shapes: a picture of twice the width.
python3 - <<'PY'
import struct, zlib
raw = b''.join(b'\0' + bytes((x * 4 + y) % 256 for x in range(64) for _ in range(3)) for y in range(32))
def chunk(kind, data):
    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
with open('pics/wide.png', 'wb') as f:
    f.write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 64, 32, 8, 2, 0, 0, 0)) +
            chunk(b'IDAT', zlib.compress(raw)) + chunk(b'IEND', b''))
PY
echo wide >pics/wide.txt
encode_spec shapes.json "$WORK/pics" '"multi_scale":true'
train shapes
grep -q '7 of 7 pictures and 1 of 8 captions' shapes.log
grep -q '2 buckets' shapes.log
rm pics/wide.*

# Lumina-Next: a random Gemma 1, SDXL's kind of autoencoder.
mkdir -p lumina/vae lumina/text_encoder lumina/tokenizer
cp "$TOP/tests/golden/vae/tiny-kl.safetensors" lumina/vae/diffusion_pytorch_model.safetensors
echo '{"norm_num_groups": 4}' >lumina/vae/config.json
echo '{}' >lumina/model_index.json
python3 "$TOP/tests/e2e/gemma_weights.py" lumina/text_encoder tiny 1
cp pipe/tokenizer/tokenizer.json lumina/tokenizer/
for name in lumina drawn; do
    STEPS=6 encode_spec $name.json "$WORK/pics"
    sed -i "s/\"sana\"/\"lumina\"/; s/\"preset\":\"tiny\"/\"preset\":\"lumina-tiny\"/; s|$WORK/pipe|$WORK/lumina|g" $name.json
done
train lumina
grep -q 'latents 4 x 4 x 4, captions of 16 words; encoded for Lumina-Next' lumina.log
train drawn
diff <(losses lumina) <(losses drawn)
# A dropped caption is the empty one, with its own length.
cp -r pics empty
for text in empty/*.txt; do : >"$text"; done
sed 's/"steps"/"caption_dropout":1,"steps"/; s|lumina.json.ckpt|dropped.json.ckpt|' lumina.json >dropped.json
sed "s/\"steps\"/\"caption_dropout\":0,\"steps\"/; s|$WORK/pics|$WORK/empty|; s|lumina.json.ckpt|empty.json.ckpt|" lumina.json >empty.json
train dropped
train empty
diff <(losses dropped) <(losses empty)
! diff <(losses dropped) <(losses lumina) >/dev/null || exit 1

# The wrong family of text encoder, and of preset.
sed "s|\"text_encoder\":\"[^\"]*\"|\"text_encoder\":\"$WORK/pipe\"|" lumina.json >wrong.json
code 64 jobctl-train train --spec wrong.json
has 'is Gemma 2; encoders: lumina needs Gemma 1' err
sed 's/"preset":"lumina-tiny"/"preset":"tiny"/' lumina.json >wrong.json
code 64 jobctl-train train --spec wrong.json
has 'train.data.encoders: lumina does not fit a preset of the family sana' err

# What a plan and a doctor say, before anything is there and afterwards; neither leaves anything.
take_pictures new 6
cat >new.yaml <<YAML
name: new
resources: {gpus: 0, ranks: 1}
train:
  model: {preset: tiny}
  data: {path: new, encoders: sana, vae: pipe, text_encoder: pipe, resolution: 32, text_rows: 16}
  batch: {global: 4}
  steps: 2
YAML
jobctl plan new.yaml >said
grep -q 'encode      6 of 6 pictures and 7 of 7 captions; ' said || { cat said; exit 1; }
grep -q 'at least .* with 1 rank: .* counted, at the speed of a matrix product here' said
[ ! -e new.encoded ]
jobctl doctor new.yaml >said || true
grep -q 'encode .*6 of 6 pictures and 7 of 7 captions, at least [0-9.e-]* s (counted); cache of [0-9.]* KiB in ' said || { cat said; exit 1; }
jobctl submit -q new.yaml --set train.data.text_dtype=fp32
jobctl wait 1
jobctl plan new.yaml >said
grep -q 'encode      0 of 6 pictures and 7 of 7 captions; ' said || { cat said; exit 1; }
grep -q 'measured when this cache was filled before' said
