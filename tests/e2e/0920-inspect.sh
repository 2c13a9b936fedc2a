# SPDX-License-Identifier: Apache-2.0
# A file of weights is told from what it is; a hostile one is refused by name and runs nothing.
cd "$WORK"
. "$TOP/tests/e2e/expect.sh"
golden=$TOP/tests/golden/pth

code 0 jobctl-train inspect "$golden/epoch_1_step_58.pth"
has "Sana, the authors' names" out
has 'depth 1, 32 channels' out
has 'tensors that are no weights, such as optimizer state' out
code 0 jobctl-train inspect --names "$golden/weights-only.pth"
has 'F16  [32, 32, 1, 1]     x_embedder.proj.weight' out

code 65 jobctl-train inspect "$golden/hostile/os-system-nested.pth"
has "os-system-nested.pth: the pickle's byte 19 names os.system" err
empty out
