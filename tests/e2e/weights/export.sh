# SPDX-License-Identifier: Apache-2.0
# jobctl export: each format of the weights starts the same run, to the bit; adapters are in diffusers' format, and
# merged ones are the sums of their products; a directory is complete or absent.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
spec() { # NAME MEMBERS OF MODEL, OF TRAIN
    cat >"$1.json" <<JSON
{"schema":1,"name":"$1","train":{"model":{"preset":"tiny","qk_norm":true,"cross_norm":true$2}$3,
 "data":{"path":"$TOP/templates/data/tango-icons","caption_words":4,"caption_channels":32},
 "batch":{"global":4},"steps":2,"ema":0.9,"optimizer":{"lr":0.01},"sample":{"after":false}},
 "checkpoint":{"every":{"steps":100},"dir":"$WORK/$1"}}
JSON
    code 0 jobctl-train train --spec "$1.json"
}
tensors() { cat "$1/step-00000002/model.safetensors" | sha256sum; }

spec base "" ""
spec next ",\"weights\":\"$WORK/base/step-00000002\"" ""
for format in diffusers authors safetensors; do
    code 0 jobctl-train export --dir base --format $format --out $format
    has "$format: $format of step 2, from base/step-00000002" out
    spec "of-$format" ",\"weights\":\"$WORK/$format\"" ""
    [ "$(tensors next)" = "$(tensors of-$format)" ] || { echo "$format begins another run"; exit 1; }
    grep -q '| digest of the data | xxh3:' $format/README.md
    grep -q '| steps | 2 |' $format/README.md
done
code 0 jobctl-train export --dir base --format safetensors --ema --out ema
if cmp -s ema/model.safetensors safetensors/model.safetensors; then exit 1; fi

# What Python's own libraries read: no PyTorch is needed to see that archive and object are well-formed.
python3 - <<'PY'
import json, pickle, zipfile
z = zipfile.ZipFile('authors/model.pth')
assert z.testzip() is None
class Read(pickle.Unpickler):
    def find_class(self, module, name):
        assert (module, name) in [('torch._utils', '_rebuild_tensor_v2'), ('torch', 'FloatStorage'),
                                  ('collections', 'OrderedDict')], (module, name)
        return dict if name == 'OrderedDict' else lambda *a: a
    def persistent_load(self, pid):
        assert len(z.read('archive/data/' + pid[2])) == 4 * pid[4] and pid[0] == 'storage' and pid[3] == 'cpu'
        return pid
state = Read(z.open('archive/data.pkl')).load()['state_dict']
assert state['blocks.0.attn.qkv.weight'][2:4] == ((192, 64), (64, 1)), state['blocks.0.attn.qkv.weight']
config = json.load(open('diffusers/transformer/config.json'))
want = {'num_attention_heads': 2, 'attention_head_dim': 32, 'num_layers': 2, 'num_cross_attention_heads': 2,
        'cross_attention_head_dim': 32, 'cross_attention_dim': 64, 'caption_channels': 32, 'mlp_ratio': 2.5,
        'in_channels': 48, 'patch_size': 1, 'qk_norm': 'rms_norm_across_heads', 'norm_eps': 1e-6}
assert all(config[k] == v for k, v in want.items()), config
assert json.load(open('diffusers/model_index.json'))['_class_name'] == 'SanaPipeline'
PY

# Adapters, alone and merged.
spec lora ",\"weights\":\"$WORK/base/step-00000002\"" ',"lora":{"rank":2,"alpha":6,"targets":["to_v"]}'
code 0 jobctl-train export --dir lora --out adapters
code 0 jobctl-train export --dir lora --merged --format safetensors --out merged
code 0 jobctl-train export --dir lora --merged --with adapters:-1 --format safetensors --out undone
python3 - <<'PY'
import json, struct
def read(path):
    data = open(path, 'rb').read()
    n = struct.unpack('<Q', data[:8])[0]
    head = json.loads(data[8:8 + n])
    meta = head.pop('__metadata__', {})
    floats = lambda a, b: struct.unpack('<%df' % ((b - a) // 4), data[8 + n + a:8 + n + b])
    return meta, {k: floats(*t['data_offsets']) for k, t in head.items()}
meta, lora = read('adapters/pytorch_lora_weights.safetensors')
notes = json.loads(meta['lora_adapter_metadata'])
assert (notes['transformer.r'], notes['transformer.lora_alpha']) == (2, 6) and meta['format'] == 'pt'
assert sorted(notes['transformer.target_modules']) == ['attn1.to_v', 'attn2.to_v']
A, B = (lora['transformer.transformer_blocks.1.attn1.to_v.lora_%s.weight' % c] for c in 'AB')
base, merged, undone = (read(p)[1] for p in ('base/step-00000002/model.safetensors', 'merged/model.safetensors',
                                              'undone/model.safetensors'))
moved = 0
for i in range(64):
    for k in range(64):
        at = (128 + i) * 64 + k
        was = base['blocks.1.attn.qkv.weight'][at]
        delta = 3 * sum(B[i * 2 + r] * A[r * 64 + k] for r in range(2))
        moved = max(moved, abs(delta))
        assert abs(merged['blocks.1.attn.qkv.weight'][at] - was - delta) < 1e-6 + abs(was) / 256
        assert abs(undone['blocks.1.attn.qkv.weight'][at] - was) < 1e-6 + abs(was) / 256
assert moved > 1e-4, moved
PY

# Adapters are no weights to begin with; merged ones are.
sed "s|base/step-00000002|adapters|; s|$WORK/lora|$WORK/of-adapters|" lora.json >of-adapters.json
code 64 jobctl-train train --spec of-adapters.json
has 'adapters/pytorch_lora_weights.safetensors: these are adapters (LoRA), and a run cannot start from adapters alone' err
spec of-merged ",\"weights\":\"$WORK/merged\"" ''

# Refused, and what is left after a death in the middle: nothing, once there is another export.
code 64 jobctl-train export --dir base --out diffusers
has 'diffusers exists already' err
code 64 jobctl-train export --dir lora --format authors --out new
has 'the authors'"'"' programs have no adapters: add --merged' err
code 64 jobctl-train export --dir base --lora --out new
has '--lora: this run has trained all weights' err
code 64 jobctl-train export --dir base --format onnx --out new
has '--format onnx: expected diffusers, authors or safetensors' err
(ulimit -f 200 && jobctl-train export --dir base --out new >out 2>err) && exit 1 # SIGXFSZ, in the middle of the weights
[ ! -e new ]
code 0 jobctl-train export --dir base --out new
[ -z "$(ls -A | grep '^\.tmp-')" ] || { ls -A; exit 1; }

# By its job.
export JOBCTL_HOME=$WORK/home
cat >job.yaml <<YAML
train:
  model: {preset: tiny}
  data: {path: $TOP/templates/data/tango-icons, caption_words: 4, caption_channels: 32}
  batch: {global: 4}
  steps: 1
  sample: {after: false}
resources: {gpus: 0}
YAML
code 0 jobctl submit --wait job.yaml
code 0 jobctl export last "$WORK/of-job" --format authors
[ -s of-job/model.pth ]
code 2 jobctl export last
has 'export takes a job and a new directory' err
stop_daemon
