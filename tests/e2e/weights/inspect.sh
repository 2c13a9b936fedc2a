# SPDX-License-Identifier: Apache-2.0
# A file of weights is described by its contents; a hostile one is refused by name and runs nothing. A text encoder's
# folder encodes captions.
cd "$WORK"
. "$TOP/tests/e2e/expect.sh"
golden=$TOP/tests/golden/pth

code 0 jobctl-train inspect "$golden/epoch_1_step_58.pth"
has "Sana, the authors' names" out
has 'depth 1, 32 channels' out
has 'tensors that are not weights, such as optimizer state' out
code 0 jobctl-train inspect --names "$golden/weights-only.pth"
has 'F16  [32, 32, 1, 1]     x_embedder.proj.weight' out

code 65 jobctl-train inspect "$golden/hostile/os-system-nested.pth"
has "os-system-nested.pth: the pickle's byte 19 names os.system" err
empty out

mkdir gemma
python3 "$TOP/tests/e2e/gemma_weights.py" gemma tiny
cp "$TOP/tests/golden/tokenizer/tokenizer.json" gemma/
printf 'User Prompt: ' >chi
printf 'A cat sleeping\nA boat\n' >captions
code 0 jobctl-train encode --encoder gemma --chi chi --rows 20 --out vectors --json <captions
engine_json "(o['captions'], o['prefix_reused'], o['rows'], o['channels']) == (2, 2, 20, 32)"
code 0 jobctl-train inspect --names vectors
has 'F32  [20, 32]           y.1' out
has 'F32  [20]               mask.null' out
code 64 jobctl-train encode --encoder gemma --style diffuser <captions
has '--style is "diffuser"; expected authors or diffusers' err
rm gemma/tokenizer.json
code 64 jobctl-train encode --encoder gemma <captions
has "gemma: has neither tokenizer.json nor tokenizer.model" err
