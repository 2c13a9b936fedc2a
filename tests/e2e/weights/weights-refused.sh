# SPDX-License-Identifier: Apache-2.0
# Weights that do not fit are refused before anything is read or allocated, by submit, plan, doctor and the run;
# weights_strict: false uses what fits.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
export JOBCTL_HOME=$WORK/home
cp -r "$TOP/templates/data/tango-icons" data
make() { python3 "$TOP/tests/e2e/weights.py" native/step-00000001/model.safetensors "$@"; }
spec() { # NAME MODEL-MEMBERS MORE-TOP-MEMBERS
    cat >"$1.json" <<JSON
{"schema":1,"train":{"model":{$2},"data":{"path":"$WORK/data"},"batch":{"global":4},"steps":1,"sample":{"after":false}},
 "checkpoint":{"every":{"steps":100},"dir":"$WORK/$1"}${3:+,$3}}
JSON
}
norms='"preset":"tiny","qk_norm":true,"cross_norm":true'
spec native "$norms"
code 0 jobctl-train train --spec native.json

# says NAME SENTENCE: the run, and before it the engine's check of the spec, which begins with no data and no memory
says() {
    code "${3:-64}" jobctl-train train --spec "$1.json"
    has "$2" err
    code "${3:-64}" jobctl-train inspect --spec "$1.json"
    has "$2" err
    code "${3:-64}" jobctl-train plan --spec "$1.json"
    has "$2" err
    [ ! -e "$1/cache" ]
}

# Tensors left over, missing, of another shape.
make full.pth authors pth F32
spec left "\"preset\":\"tiny\",\"weights\":\"$WORK/full.pth\""
says left "this is Sana (depth 2, 64 channels, qk_norm, cross_norm), the spec says Sana (depth 2, 64 channels)"
make less.safetensors diffusers safetensors F32 drop=transformer_blocks.1.attn2.to_v.bias add=clip.weight
spec less "$norms,\"weights\":\"$WORK/less.safetensors\""
says less "less.safetensors: 53 of the model's 55 tensors match; 1 missing: blocks.1.cross_attn.kv_linear.bias; 1 that the model does not have: clip.weight; weights_strict: false accepts this"
make cut.safetensors authors safetensors F32 cut=blocks.0.mlp.depth_conv.conv.weight
spec cut "$norms,\"weights_strict\":false,\"weights\":\"$WORK/cut.safetensors\""
says cut "1 have another shape: blocks.0.mlp.depth_conv.conv.weight, [160, 1, 3, 3] instead of [320, 1, 3, 3]"
make free.safetensors authors safetensors F32 drop=y_embedder.y_embedding zero=pos_embed add=lm_head.weight
spec free "$norms,\"weights\":\"$WORK/free.safetensors\""
code 0 jobctl-train train --spec free.json

# Models that have all tensors of this one, and are another, also if not strict: a .pth of 2K pixels, Sana-Sprint.
mkdir diffusers
make wide.pth authors pth F32 add=pos_embed
make sprint.safetensors authors safetensors F32 add=logvar_linear.weight
make diffusers/diffusion_pytorch_model.safetensors diffusers safetensors F32
spec wide "$norms,\"weights\":\"$WORK/wide.pth\",\"weights_strict\":false"
says wide 'wide.pth: the tensor pos_embed is not zero: position embeddings, which the models of 2K and 4K pixels have'
spec sprint "$norms,\"weights\":\"$WORK/sprint.safetensors\",\"weights_strict\":false"
says sprint 'sprint.safetensors: the tensor logvar_linear.weight is the variance of Sana-Sprint'
config() { # MEMBERS of diffusers' config.json
    cat >diffusers/config.json <<JSON
{"_class_name":"SanaTransformer2DModel","attention_head_dim":32,$1}
JSON
}
spec diffusers "$norms,\"weights\":\"$WORK/diffusers\""
config '"num_cross_attention_heads":2,"interpolation_scale":null'
code 0 jobctl-train plan --spec diffusers.json
config '"interpolation_scale":1.0'
says diffusers 'diffusers/config.json: interpolation_scale is 1.0: position embeddings'
config '"num_cross_attention_heads":4'
says diffusers 'num_cross_attention_heads is 4, the spec says model.heads: 2'

# Not strict: what fits, and a warning with the rest.
sed -i 's/"weights":/"weights_strict":false,"weights":/' less.json
code 0 jobctl-train plan --spec less.json
has 'weights     Sana (depth 2, 64 channels, qk_norm, cross_norm), 53 tensors (F32)' out
has '1 tensors of the model are not in it and are drawn at random: blocks.1.cross_attn.kv_linear.bias' out
code 0 jobctl-train train --spec less.json

# The key, with its place in the file, from the commands of users; nothing is submitted.
cat >job.yaml <<YAML
train:
  model:
    preset: sana-600m
    weights: full.pth
  data: {path: data, encoders: dct+hash, resolution: 128, dct_block: 4}
  steps: 1
YAML
other='full.pth: this is Sana (depth 2, 64 channels, qk_norm, cross_norm), the spec says Sana 0.6B (sana-600m: depth 28, 1152 channels)'
for command in "submit --dry-run" submit plan; do
    code 2 jobctl $command job.yaml
    has 'job.yaml:4:14: train.model.weights: ' err
    has "$other" err
done
code 1 jobctl doctor job.yaml
has 'fail     weights         train.model.weights: ' out
has "$other" out
printf 'PK\003\004\000\000\010\010\000\000archive/data.pkl' >fake.pth
echo '{"metadata":{},"weight_map":{"a.weight":"gone.safetensors"}}' >model.index.json
for row in "fake.pth|the zip archive is damaged or truncated" "model.index.json|gone.safetensors" \
    "gone.pth|does not exist" "data|no weights in this directory" "wide.pth|the tensor pos_embed is not zero"; do
    sed "s/full.pth/${row%%|*}/" job.yaml >other.yaml
    code 2 jobctl submit --dry-run other.yaml
    has 'other.yaml:4:14: train.model.weights: ' err
    has "${row#*|}" err
done
{ cat job.yaml; echo 'load_from: full.pth'; } >theirs.yaml
code 2 jobctl submit --dry-run theirs.yaml
has 'unknown key "load_from"' err
has 'train.model.weights' err
sed '/ weights:/d; s/preset:.*/weights_strict: false/' job.yaml >none.yaml
code 2 jobctl submit --dry-run none.yaml
has 'train.model.weights_strict: needs train.model.weights' err
[ ! -e "$JOBCTL_HOME/jobctl.sock" ] # nothing was submitted
