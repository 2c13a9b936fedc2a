# SPDX-License-Identifier: Apache-2.0
# A model's weights under both namings and in every published format: each starts the same run, to the bit, even if each
# rank keeps only a part of them.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
make() { python3 "$TOP/tests/e2e/weights.py" native/step-00000002/model.safetensors "$@"; }
spec() { # NAME MODEL-MEMBERS
    cat >"$1.json" <<JSON
{"schema":1,"train":{"model":{"preset":"tiny","qk_norm":true,"cross_norm":true$2},"data":{$data},
 "batch":{"global":4},"steps":2,"sample":{"after":false}},"checkpoint":{"every":{"steps":100},"dir":"$WORK/$1"}}
JSON
}
run() { # NAME PATH: two steps from these weights
    spec "$1" ",\"weights\":\"$WORK/$2\""
    code 0 jobctl-train train --spec "$1.json"
}
same() { cmp "$1/step-00000002/model.safetensors" "$2/step-00000002/model.safetensors"; }

mkdir shards
python3 "$TOP/tests/e2e/features.py" shards/one.safetensors 48 4 64 24:12x12
data="\"path\":\"$WORK/shards\",\"encoders\":\"features\""
spec native ""
code 0 jobctl-train train --spec native.json

run base native/step-00000002 # a checkpoint of ours
has 'weights: Sana (depth 2, 64 channels, qk_norm, cross_norm), 55 tensors (F32), Sana, the authors'"'"' names, from ' out
if cmp -s base/step-00000002/model.safetensors native/step-00000002/model.safetensors; then exit 1; fi

make a.safetensors authors safetensors F32
make d.safetensors diffusers safetensors F32
make shard diffusers shards F32
make pipe diffusers folder F32
make a.pth authors pth F32
make old.pth authors legacy F32
for form in a.safetensors d.safetensors shard/model.safetensors.index.json pipe a.pth old.pth; do
    run "of-${form//\//-}" "$form"
    same base "of-${form//\//-}"
done

# Halves are converted: as the same numbers in 32 bits.
for type in F16 BF16; do
    make "$type.safetensors" authors safetensors "F32<$type"
    make "$type.pth" diffusers pth "$type"
    run "$type" "$type.safetensors"
    run "$type-pth" "$type.pth"
    has "tensors ($type), Sana, diffusers' names, from " out
    same "$type" "$type-pth"
    if cmp -s "$type/step-00000002/model.safetensors" base/step-00000002/model.safetensors; then exit 1; fi
done

make BF16.d diffusers folder BF16
run BF16-d BF16.d
same BF16 BF16-d

# A job that has a checkpoint needs the weights no more.
rm -r a.safetensors
sed -i 's/"steps":2/"steps":3/' of-a.safetensors.json
code 0 jobctl-train train --spec of-a.safetensors.json
has 'resumed: step 2 from' out

# Ranks that share the state read their parts.
export JOBCTL_HOME=$WORK/home
for ranks in 1-auto 2-zero1 2-fsdp; do
    cat >"r$ranks.yaml" <<YAML
train:
  model: {preset: tiny, qk_norm: true, cross_norm: true, weights: BF16.d}
  data: {path: shards, encoders: features}
  batch: {global: 4}
  steps: 2
  reproducible: true
  parallel: ${ranks#*-}
resources: {gpus: 0, ranks: ${ranks%-*}}
checkpoint: {every: 100 steps, dir: r$ranks}
YAML
    code 0 jobctl submit --wait "r$ranks.yaml"
    same r1-auto "r$ranks"
done
code 0 jobctl doctor r1-auto.yaml
has "ok       weights         Sana (depth 2, 64 channels, qk_norm, cross_norm), 54 tensors (BF16), Sana, diffusers' names" out
stop_daemon
