#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# deploy/colab_sana.ipynb from top to bottom on the CPU, with toy encoders and a small Sana in place of a released one. On the
# next VM, with the same drive, it goes on from there: nothing is trained twice.
. "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/wheel.sh"
cd "$WORK"
$python -c 'import nbclient, ipykernel' 2>/dev/null || { echo "python3-nbclient is not installed"; exit 77; }
icons=$TOP/templates/data/tango-icons
$python "$TOP/deploy/toy_sana.py" "$WORK/toy" "$icons"
mkdir pictures base
cp "$icons"/face-monkey.* "$icons"/user-home.* base
cp "$icons"/printer.* "$icons"/weather-storm.png pictures # the latter gets CAPTION
cat >base.json <<JSON
{"schema":1,"train":{"model":{"preset":"icons","patch":2},"data":{"path":"$WORK/base","encoders":"sana","vae":"$WORK/toy",
 "text_encoder":"$WORK/toy","text_rows":12,"resolution":32},"batch":{"global":2},"steps":1},
 "checkpoint":{"every":{"steps":1},"dir":"$WORK/base.checkpoints"}}
JSON
jobctl-train train --spec base.json >base.log 2>&1 || { cat base.log; exit 1; }
jobctl-train export --dir base.checkpoints --out model >>base.log
cp -r toy/. model
make_wheel

of_vm() { grep -lsz "^JOBCTL_HOME=$WORK/$1/state\$" /proc/[0-9]*/environ | sed 's|/proc/\([0-9]*\)/.*|\1|' || true; }
nobody_of() { [ -z "$(of_vm "$1")" ]; }
notebook() { # VM STEPS
    local vm=$WORK/$1
    make_jupyter "$vm"
    (cd "$vm" && exec env JOBCTL_HOME="$vm/state" HOME="$vm" IPYTHONDIR="$vm/ipython" PYTHONDONTWRITEBYTECODE=1 setsid \
        "$vm/python/bin/python" "$TOP/tests/payload/run_notebook.py" "$TOP/deploy/colab_sana.ipynb" out.ipynb \
        WHEEL="$wheel" DRIVE="$WORK/drive" PICTURES="$WORK/pictures" CAPTION='a face' PROMPTS='["a face", "printer"]' \
        WEIGHTS="$WORK/model" PRESET=icons SIZE=32 STEPS="$2" CHANGES='{"train.model.patch": 2,
        "train.data.text_rows": 12, "resources.gpus": 0, "train.validate.steps": 2}' >"$vm/log" 2>&1) ||
        { tail -n 30 "$vm/log"; exit 1; }
    for pid in $(of_vm "$1"); do kill "$pid"; done
    wait_for "the processes of the VM end" nobody_of "$1"
}
shows() { # VM TEXT...: these, and three pictures at least
    $python - "$WORK/$1/out.ipynb" "${@:2}" <<'PY'
import json, sys
outputs = [o for c in json.load(open(sys.argv[1]))["cells"] for o in c.get("outputs", [])]
text = "".join("".join(o.get("text", "")) for o in outputs)
for wanted in sys.argv[2:]:
    assert wanted in text, (wanted, text)
assert sum("image/png" in o.get("data", {}) for o in outputs) == 2, text
PY
}
notebook vm1 8
shows vm1 'job 1 begins' '8/8' succeeded 'lora        rank 16' 'load_lora_weights' 'url.hash = "token='
[ -s drive/sana-own-adapters/pytorch_lora_weights.safetensors ]
[ -s drive/sana-own/checkpoints/samples/prompts.png ]
rm -r vm1 # paths are those of every VM
notebook vm1 8
shows vm1 'goes on with what is on the drive' 'succeeded at step 8'
