#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A run reports its memory plan before it starts; with recomputed blocks it needs less and gives the same bits; sizes
# that were too large before are not tried again on the same device.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
run() { # NAME GRAD_CHECKPOINTING
    cat >"$1.json" <<JSON
{"schema":1,"train":{"model":{"preset":"tiny","depth":4},"data":{"path":"$TOP/templates/data/tango-icons",
 "caption_words":4},"batch":{"global":6,"micro":4},"steps":6,"ema":0.9,"optimizer":{"lr":1e-3},
 "grad_checkpointing":$2,"sample":{"after":false}},
 "checkpoint":{"every":{"steps":3},"dir":"$WORK/$1"}}
JSON
    jobctl-train train --spec "$1.json" >"$1.log" 2>&1
}
size() { # NAME CLASS: bytes planned
    jobctl-train plan --spec "$1.json" --json |
        python3 -c 'import json,sys; print(json.load(sys.stdin)["memory"][0]["bytes"][sys.argv[1]])' "$2"
}
run keep false
run again true
run auto '"auto"'
for f in model optimizer; do
    cmp "keep/step-00000006/$f.safetensors" "again/step-00000006/$f.safetensors"
    cmp "keep/step-00000006/$f.safetensors" "auto/step-00000006/$f.safetensors"
done
grep -q 'gradient checkpointing: on, .. % more work (set by train.grad_checkpointing)' again.log
! grep 'checkpointing: on' keep.log auto.log || exit 1
grep -q 'batch: 6 samples in 2 micro-batches of 4 (set by train.batch.micro)' keep.log
[ "$(size again activations)" -lt $(($(size keep activations) * 2 / 3)) ]
[ "$(size again weights)" = "$(size keep weights)" ]

# A note of an earlier run on this device counts; one of another device does not.
mkdir noted other
echo '{"schema":1,"device":"cpu","micro":1,"recompute":true}' >noted/memory.json
echo '{"schema":1,"device":"NVIDIA X","micro":1,"recompute":true}' >other/memory.json
run noted '"auto"'
run other '"auto"'
grep -q 'batch: 6 samples in 6 micro-batches of 1 (the run ran out of memory with larger ones)' noted.log
grep -q '(the run ran out of memory with one sample at a time)' noted.log
grep -q 'batch: 6 samples in 2 micro-batches of 4' other.log

# Pictures of many shapes: the size that ran out is taken in smaller pieces from then on, and no other has
# more pixels at once, by the next start, whoever makes it: the arrays shrink with it. A step still takes the same samples, so the losses are those of a run that fitted.
python3 "$TOP/tests/e2e/pictures.py" "$WORK/many"
shapes() { # NAME
    cat >"$1.json" <<JSON
{"schema":1,"train":{"model":{"preset":"tiny"},"data":{"path":"$WORK/many","multi_scale":true,"resolution":32,
 "caption_words":4},"batch":{"global":8,"micro":8},"steps":20,"optimizer":{"lr":1e-3},
 "grad_checkpointing":false,"sample":{"after":false}},"checkpoint":{"every":{"steps":3},"dir":"$WORK/$1"}}
JSON
    jobctl-train train --spec "$1.json" >>"$1.log" 2>&1
}
shapes fits
export JOBCTL_TEST_OOM=8x8:3
for next in 4 2; do
    code 72 shapes small
    grep -q "of 8x8 latents do not fit; the next start uses at most $next of 8x8," small.log
    grep -q "\"samples\":$next" small/memory.json
done
shapes small
grep -q 'batch: at most 2 samples of 8x8 latents per micro-batch, and no more pixels of other sizes (the run ran out' small.log
grep -q 'batch: 8 samples in 4 micro-batches of 2 (the run ran out of memory with larger ones)' small.log
activations() { sed -n 's/^memory: .*activations \([0-9.]*\) MiB.*/\1/p' "$1.log" | tail -n 1; }
python3 -c 'import sys; a, b = map(float, sys.argv[1:]); assert b < a / 3, (a, b)' "$(activations fits)" "$(activations small)"
python3 - <<'PY'
import json
def rows(path): return {r["step"]: r for r in map(json.loads, open(path))}
fits, small = (rows(d + "/metrics.jsonl") for d in ("fits", "small"))
assert all(abs(fits[s]["loss"] - small[s]["loss"]) < 1e-3 * fits[s]["loss"] for s in range(1, 21))
PY
# The bits of a reproducible run depend on its micro-batches: it keeps them, and says why it stops.
sed 's/"train":{/"train":{"reproducible":true,/; s/small/kept/g' small.json >kept.json
mkdir kept
JOBCTL_TEST_OOM=8x8:0 code 64 jobctl-train train --spec kept.json
has 'reproducible: true does not change micro-batches, so a restart cannot help' err
[ ! -e kept/memory.json ]
unset JOBCTL_TEST_OOM
# Not even one of them, and blocks are to be kept: no other start would help.
sed -i 's/small/none/g' small.json && cp small.json none.json
mkdir none && echo '{"schema":1,"device":"cpu","micro":0,"recompute":false,
 "most":{"height":8,"width":8,"samples":1}}' >none/memory.json
JOBCTL_TEST_OOM=8x8:0 code 64 jobctl-train train --spec none.json
has 'one sample at a time does not fit, so a restart cannot help' err

# A plan that does not fit: exit code 1, and what would. bf16 is planned on machines without a GPU too.
cat >large.json <<JSON
{"schema":1,"train":{"model":{"preset":"sana-1600m"},"precision":"bf16","batch":{"global":8},"steps":9,"data":{
 "encoders":"synthetic","resolution":1024,"caption_words":300,"caption_channels":2304}}}
JSON
code 1 jobctl-train plan --spec large.json --gpu-memory 16 --must-fit
has 'would fit              13.39 GiB, with resources.gpus: 4' out
code 0 jobctl-train plan --spec large.json --gpu-memory 16,80 --must-fit
sed -i 's/"type":"came",//; s/"steps":9/"steps":9,"optimizer":{"type":"adamw"},"ema":0.9/' large.json
code 0 jobctl-train plan --spec large.json --gpu-memory 30
has 'with train.optimizer.type: came' out
code 1 jobctl-train plan --spec large.json --gpu-memory 2 --must-fit
has 'no setting makes it fit: at least ' out
sed -i "s|\"encoders\":\"synthetic\",\"resolution\":1024.*|\"encoders\":\"dct+hash\",\"path\":\"$TOP/templates/data/tango-icons\"}}}|" large.json
code 0 jobctl-train plan --spec large.json --gpu-memory 80
has 'a model this large with data.encoders: dct+hash' out
