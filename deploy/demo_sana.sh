#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# demo_sana.sh [BIN [OUT [BASE_STEPS [STEPS]]]] - the path of a Sana fine-tune at toy size, with all its real components
#
# A DC-AE and a Gemma of 0.8 MB together (toy_sana.py) encode 19 icons, and a small Sana learns them: the "released" model.
# Then adapters (LoRA) learn five pictures that it has never seen, with pictures of prompts as they go; they are exported,
# and draw a picture without any job.  About two minutes on two cores.  OUT (default: build/demo-sana) is made anew.
set -euo pipefail
top=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
bin=$(cd "${1:-$top/build/bin}" && pwd)
out=${2:-$top/build/demo-sana} base_steps=${3:-360} steps=${4:-120}
icons=$top/templates/data/tango-icons
own="emblem-favorite face-monkey printer user-home weather-storm"
export PATH="$bin:$PATH"
begin=$SECONDS

if [ -e "$out" ] && [ ! -e "$out/demo-sana" ]; then
    echo "$out is there, and no earlier demo made it; name another directory: $0 BIN OUT" >&2
    exit 64
fi
rm -rf "$out"
mkdir -p "$out/base" "$out/own"
out=$(cd "$out" && pwd)
touch "$out/demo-sana"
for text in "$icons"/*.txt; do
    name=$(basename "$text" .txt)
    case " $own " in
    *" $name "*) cp "$icons/$name".* "$out/own/" ;;
    *) cp "$icons/$name".* "$out/base/" ;;
    esac
done
python3 "$top/deploy/toy_sana.py" "$out/toy" "$icons"

run() { # FILE: a job, to its end
    local rc=0
    jobctl submit --follow "$1" || rc=$?
    [ "$rc" = 0 ] || { echo "The job did not end well (exit $rc). This says why:  jobctl why last" >&2; exit "$rc"; }
}

cat >"$out/base.yaml" <<YAML
name: demo-sana-base
train:
  model: {preset: icons, patch: 2}
  data: {path: base, encoders: sana, vae: toy, text_encoder: toy, text_rows: 12}
  batch: {global: 32}
  steps: $base_steps
  optimizer: {lr: 2.0e-3}
  schedule: {type: cosine, warmup: 40}
  ema: 0.98
checkpoint: {every: 10000 steps, dir: base.checkpoints}
resources: {gpus: 0}
YAML
cat >"$out/own.yaml" <<YAML
name: demo-sana-own
train:
  model: {preset: icons, patch: 2, weights: model}
  lora: {rank: 32, alpha: 32, targets: [to_q, to_k, to_v, to_out.0, conv_inverted, conv_point]}
  data: {path: own, encoders: sana, text_rows: 12}
  batch: {global: 20}
  steps: $steps
  optimizer: {lr: 5.0e-3}
  schedule: {type: cosine, warmup: 10}
  validate: {prompts: [emblem favorite, face monkey, printer, user home, weather storm], every: $(((steps + 3) / 4)) steps,
             guidance: 1.5}
checkpoint: {every: 10000 steps, dir: own.checkpoints}
resources: {gpus: 0}
YAML

echo "1. A small Sana learns 19 icons: it stands for released weights."
run "$out/base.yaml"
jobctl-train export --dir "$out/base.checkpoints" --out "$out/model" --ema
cp -r "$out/toy/." "$out/model/"

echo
echo "2. Adapters learn five pictures that it has not seen."
run "$out/own.yaml"
jobctl-train export --dir "$out/own.checkpoints" --out "$out/adapters"

echo
echo "3. Model and adapters draw, without a job."
jobctl-train sample --weights "$out/model" --lora "$out/adapters" --prompt "face monkey" --cfg 1.5 --size 32 \
    --out "$out/face-monkey.png"

echo
echo "  what it learned   $out/own.checkpoints/samples/prompts.png"
echo "                    a row per step, a column per prompt; step 0 is the model without adapters"
echo "  adapters          $out/adapters/pytorch_lora_weights.safetensors, as diffusers loads them"
echo "  the whole model   $out/model, a folder as diffusers saves pipelines"
echo "  time              $((SECONDS - begin)) s"
