# SPDX-License-Identifier: Apache-2.0
# train.config: a configuration of NVlabs/Sana is read unchanged; the job's own keys take precedence; unsupported keys
# are refused with file, line and key; the stored spec has the values, so the file may later change or be removed.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
export JOBCTL_HOME=$WORK/home
mkdir configs
cat >configs/theirs.yaml <<'YAML'
data:
  data_dir: [data/theirs]
  image_size: 512
  type: SanaWebDatasetMS
model:
  model: SanaMS_600M_P1_D28
  mixed_precision: fp16
  attn_type: linear
  mlp_acts:
    - silu
    - silu
    -
  mlp_ratio: 2.5
  class_dropout_prob: 0.1
scheduler:
  predict_flow_v: true
  flow_shift: 4.0
  weighting_scheme: logit_normal
train:
  train_batch_size: 128
  gradient_clip: 0.1
  optimizer:
    betas: [0.9, 0.999, 0.9999]
    eps:
      - 1.0e-30
      - 1.0e-15
    lr: 0.0001
    type: CAMEWrapper
  lr_schedule: constant
  lr_schedule_args:
    num_warmup_steps: 2
YAML
cat >job.yaml <<YAML
train:
  config: configs/theirs.yaml
  model: {preset: tiny}
  data: {path: $TOP/templates/data/tango-icons, resolution: 32, caption_words: 4}
  batch: {global: 16}
  steps: 3
  sample: {after: false}
resources: {gpus: 0}
checkpoint: {dir: $WORK/out}
YAML
code 0 jobctl submit --dry-run --json job.yaml
python3 - <<'PY'
import json
o = json.load(open('out'))
t = (o.get('spec') or o)['train']
assert t['optimizer'] == {'type': 'came', 'lr': t['optimizer']['lr'], 'weight_decay': 0.0,
                          'betas': [0.9, 0.999, 0.9999], 'eps': 1e-30, 'eps_2': 1e-15, 'clip': 0.1}, t['optimizer']
assert abs(t['optimizer']['lr'] - 1e-4 / 4) < 1e-18 and t['flow']['shift'] == 4.0 and t['schedule']['warmup'] == 2
assert t['model']['preset'] == 'tiny' and t['data']['resolution'] == 32 and t['batch']['global'] == 16
PY
sed -i "s|dir: $WORK/out|dir: $WORK/run|" job.yaml
code 0 jobctl submit job.yaml
mv configs/theirs.yaml kept.yaml
code 0 jobctl wait last --timeout 60
[ -d run/step-00000003 ]
mv kept.yaml configs/theirs.yaml

sed -i 's/  mlp_ratio: 2.5/&\n  use_pe: true\n  pe_interpolation: 2.0/' configs/theirs.yaml
code 2 jobctl submit --dry-run job.yaml
has 'theirs.yaml:14: model.use_pe: "true" is not supported: it would be position embeddings, which the models of 2K and 4K pixels have' err
sed -i '/use_pe/d' configs/theirs.yaml # without use_pe, pe_interpolation has no effect
code 0 jobctl submit --dry-run job.yaml
sed -i 's/CAMEWrapper/CAME8BitWrapper/; /pe_interp/d' configs/theirs.yaml
code 2 jobctl plan job.yaml
has 'job.yaml:2:11: train.config: configs/theirs.yaml:28: train.optimizer.type: 8-bit state is not supported' err
lacks 'betas' err
rm configs/theirs.yaml
code 2 jobctl plan job.yaml
has 'train.config: cannot read ' err
stop_daemon
