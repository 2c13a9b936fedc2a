# SPDX-License-Identifier: Apache-2.0
# plan and doctor of a job whose encoders are on a hub, before they are fetched: what is missing, the command that
# fetches it, and everything that can be planned without it; afterwards the whole plan. Adapters are shown with rank and
# layers.
. "$TOP/tests/e2e/hub.sh"
. "$TOP/tests/e2e/encoders.sh"
cd "$WORK"
make_pipe pipe
mkdir pipe/transformer
take_pictures pics 6
commit=$(add me/pipe pipe)
cat >job.yaml <<YAML
name: new
resources: {gpus: 0, ranks: 1}
train:
  model: {preset: tiny}
  data: {path: pics, encoders: sana, vae: "hf://me/pipe", text_encoder: "hf://me/pipe", resolution: 64}
  batch: {global: 4}
  steps: 2
YAML

# told_without: what a plan tells that has no encoders
told_without() {
    has 'encode      6 pictures and 7 captions; about 3.0 KiB of latents and at most 9.2 MiB of text in ' out
    has 'the encoders are not here yet: train.data.vae: missing in the cache ' out
    has 'assumed, as published: latents of 32 channels at 1/32 of the size, captions of at most 300 x 2304' out
    has "note: nothing is downloaded now; to download it: jobctl fetch job.yaml --set 'train.steps=3'" out
    has 'run         3 steps' out
    has 'memory      ' out
}
# With the hub: what will be downloaded.
code 0 jobctl plan job.yaml --set train.steps=3
told_without
has "note: train.data.vae: me/pipe at commit ${commit:0:12}: 3 files" out
# Without network: the same plan; submit refuses it.
HF_HUB_OFFLINE=1 code 0 jobctl plan job.yaml --set train.steps=3
told_without
has 'HF_HUB_OFFLINE is set; missing in the cache ' out
HF_HUB_OFFLINE=1 code 2 jobctl submit job.yaml
has 'train.data.vae: HF_HUB_OFFLINE is set; missing in the cache ' err
jobctl doctor job.yaml >out || :
grep -q 'encode .*6 pictures and 7 captions; time and memory are unknown: train.data.vae: missing' out || { cat out; exit 1; }
grep -q '^ok *data .*6 samples' out || { cat out; exit 1; }

# The command that the note names; then the plan is whole.
code 0 jobctl fetch job.yaml --set 'train.steps=3'
HF_HUB_OFFLINE=1 code 0 jobctl plan job.yaml --set train.steps=3
has 'encode      6 of 6 pictures and 7 of 7 captions; ' out
lacks 'assumed' out
lacks 'jobctl fetch' out

# Adapters.
jobctl submit -q --wait job.yaml --set "train.data={path: pics, resolution: 32}" --set "checkpoint={dir: $WORK/base}"
code 0 jobctl plan job.yaml --set "train.data={path: pics, resolution: 32}" --set "train.model.weights=$WORK/base/step-00000002" \
    --set 'train.lora={rank: 3, targets: [to_q, conv_point]}'
has 'lora        rank 3, alpha 3 on attn1.to_q, attn2.to_q, ff.conv_point' out
