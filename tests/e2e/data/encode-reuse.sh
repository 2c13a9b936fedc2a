# SPDX-License-Identifier: Apache-2.0
# Data in the cache is not encoded again: only an added picture is, another option uses another cache, a damaged file is
# detected and recreated. Training on it equals training on features made by hand.
. "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/encoders.sh"
cd "$WORK"
make_pipe pipe
take_pictures pics 6

train() { jobctl-train train --spec "$1.json" >"$1.log" 2>&1 || { cat "$1.log"; exit 1; }; }
# spec NAME [MEMBERS]; count PATTERN: of files
spec() { encode_spec "$1.json" "$WORK/pics" "${2:-}"; }
count() { find . -path "./pics.encoded/$1/*.safetensors" | wc -l; }

spec first
train first
[ "$(count 'latents-*')" = 2 ] && [ "$(count 'text-*')" = 3 ]
shards pics.encoded >before
spec again
train again
! grep -q 'to be encoded' again.log || exit 1
shards pics.encoded | diff before -

# One more picture, in the middle of the order.
cp "$TOP/templates/data/tango-icons/printer.png" pics/bb.png
echo "a printer that nobody has" >pics/bb.txt
spec added
train added
grep -q '1 of 7 pictures and 1 of 8 captions are to be encoded' added.log || { cat added.log; exit 1; }
shards pics.encoded >after
[ "$(comm -23 <(sort before) <(sort after) | wc -l)" = 0 ] # none was written again
[ "$(wc -l <after)" = 7 ]

# The same picture under another name, and a caption that is there already.
cp pics/bb.png pics/cc.png
cp pics/bb.txt pics/cc.txt
spec twice
train twice
! grep -q 'to be encoded' twice.log || exit 1
rm pics/cc.*

# Options of captions leave the latents as they are.
spec lower '"caption_style":"diffusers"'
train lower
[ "$(ls -d pics.encoded/text-* | wc -l)" = 2 ] && [ "$(ls -d pics.encoded/latents-* | wc -l)" = 1 ]
grep -q '0 of 7 pictures and 8 of 8 captions' lower.log
printf 'Describe the picture.\nUser Prompt: ' >chi
spec chi "\"instruction\":\"$WORK/chi\""
train chi
[ "$(ls -d pics.encoded/text-* | wc -l)" = 3 ]
echo '{"scaling_factor": 1}' >pipe/vae/config.json
spec scale
train scale
[ "$(ls -d pics.encoded/latents-* | wc -l)" = 2 ]
echo '{"scaling_factor": 0.41407}' >pipe/vae/config.json

# A flipped bit, a file cut short.
file=$(cut -c 35- before | head -n 1)
python3 - "pics.encoded/$file" <<'PY'
import os, sys
with open(sys.argv[1], 'r+b') as f:
    f.seek(-9, os.SEEK_END)
    byte = f.read(1)[0]
    f.seek(-9, os.SEEK_END)
    f.write(bytes([byte ^ 4]))
PY
truncate -s -1 "pics.encoded/$(cut -c 35- before | tail -n 1)"
spec repaired
train repaired
[ "$(grep -c 'removed, its samples are encoded again' repaired.log)" = 2 ] || { cat repaired.log; exit 1; }
[ "$(comm -23 <(sort before) <(shards pics.encoded | sort) | wc -l)" = 0 ]

# By hand: a latent per picture, rows per caption. Of pictures without transparency, which Sana's readers drop.
rm -r pics/bb.*
mkdir hand opaque
for picture in pics/*.png; do
    jobctl-train vae encode --weights pipe --in "$picture" --out latent.npy >/dev/null
    jobctl-train vae decode --weights pipe --in latent.npy --out "opaque/$(basename "$picture")" >/dev/null
done
cp opaque/*.png pics/
STEPS=4 spec cached '"text_dtype":"fp32"'
train cached
for picture in pics/*.png; do
    jobctl-train vae encode --weights pipe --in "$picture" --out "hand/$(basename "$picture" .png).safetensors" >/dev/null
done
for text in pics/*.txt; do head -n 1 "$text"; done |
    jobctl-train encode --encoder pipe --rows 16 --out text.safetensors >/dev/null
python3 - <<'PY'
import glob, json, struct

def read(path):
    with open(path, 'rb') as f:
        head = json.loads(f.read(struct.unpack('<Q', f.read(8))[0]))
        body = f.read()
    return {k: (v['shape'], body[v['data_offsets'][0]:v['data_offsets'][1]]) for k, v in head.items() if k[0] != '_'}

files = sorted(glob.glob('hand/*.safetensors'))
text = read('text.safetensors')
n = len(files)
latent = [read(f)['latent'] for f in files]
parts = {'latent': ([n] + latent[0][0][1:], b''.join(x for _, x in latent))}
for name, source in (('caption', 'y'), ('mask', 'mask')):
    parts[name] = ([n] + text[source + '.0'][0], b''.join(text['%s.%d' % (source, i)][1] for i in range(n)))
parts['null'] = text['y.null']
head, at = {}, 0
for name, (shape, data) in parts.items():
    head[name] = {'dtype': 'F32', 'shape': shape, 'data_offsets': [at, at + len(data)]}
    at += len(data)
raw = json.dumps(head).encode()
with open('features.safetensors', 'wb') as f:
    f.write(struct.pack('<Q', len(raw)) + raw + b''.join(d for _, d in parts.values()))
PY
cat >features.json <<JSON
{"schema":1,"train":{"model":{"preset":"tiny"},"batch":{"global":4},"steps":4,
 "data":{"path":"$WORK/features.safetensors","encoders":"features"}},
 "checkpoint":{"every":{"steps":100},"dir":"$WORK/features.json.ckpt"}}
JSON
train features
diff <(read_json each step loss grad_norm <cached.json.ckpt/metrics.jsonl) \
    <(read_json each step loss grad_norm <features.json.ckpt/metrics.jsonl)
cmp cached.json.ckpt/step-00000004/model.safetensors features.json.ckpt/step-00000004/model.safetensors

# What is wrong is said with its key, before anything is computed.
refuse() { # CODE WORDS KEY VALUE
    spec wrong
    sed -i "s|\"$3\":[^,}]*|\"$3\":$4|" wrong.json
    code "$1" jobctl-train train --spec wrong.json
    has "$2" err
}
refuse 64 'train.data.vae: ' vae '"/none"'
refuse 64 'train.data.text_encoder: ' text_encoder '"/none"'
refuse 64 'train.data.resolution: 30 is not a multiple of 4, the pixels of' resolution 30
refuse 64 "$WORK/pics has no config.json: name a folder as Gemma is published" text_encoder "\"$WORK/pics\""
