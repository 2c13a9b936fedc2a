#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two ranks on one GPU: refused at submit, with the GPU's name, the number that fits and the way out; with share_gpus:
# true they train, add up through the host, and have the losses of one rank. The GPU is a stand-in for NVML, its CUDA
# runs on the CPU.
. "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/gpus.sh"
export FAKE_GPUS=a CUDA_CPU_DEVICES=1
cp -r "$TOP/templates" .
short=(--set train.steps=2 --set train.batch.global=2 --set train.sample.before=false
    --set train.sample.after=false --set train.model.depth=1 --set train.schedule.warmup=0
    --set resources.gpus=1 --set train.grad_checkpointing=false --set train.batch.micro=1)

code 2 jobctl submit templates/sana-icons.yaml "${short[@]}" --set resources.ranks=2
has '2' err
tr '\n' ' ' <err | grep -q 'share_gpus: true' || { cat err; exit 1; }

# resources.gpus: auto counts the GPUs that are here
code 3 jobctl submit templates/sana-icons.yaml "${short[@]}" --set resources.gpus=auto --set resources.ranks=2
for want in 'Fake A100 (GPU-a)' 'Duplicate GPU detected' 'here 1' 'share_gpus: true'; do
    tr -s '\n ' ' ' <err | grep -qF "$want" || { echo "no '$want':"; cat err; exit 1; }
done

code 0 jobctl submit templates/sana-icons.yaml "${short[@]}" --set name=alone --wait
code 0 jobctl submit templates/sana-icons.yaml "${short[@]}" --set name=both --set resources.ranks=2 \
    --set resources.share_gpus=true --wait
code 0 jobctl logs 2
has 'gpus: each shared by 2 ranks; gradients are added in host memory' out
has 'device: CUDA on the CPU' out
code 0 jobctl logs --events 2 --json
has '"JOBCTL_SHARED_GPUS"' out
has 'they all-reduce through host memory' out
python3 - "$JOBCTL_HOME" <<'END'
import glob, json, sys
def losses(job):
    path, = glob.glob(f"{sys.argv[1]}/jobs/{job}/**/metrics.jsonl", recursive=True)
    return {r["step"]: r["loss"] for r in map(json.loads, open(path)) if "loss" in r}
one, two = losses(1), losses(2)
assert len(one) == 2 and one.keys() == two.keys(), (one, two)
for step in one:
    assert abs(one[step] - two[step]) <= 1e-3 * abs(one[step]), (step, one[step], two[step])
END
