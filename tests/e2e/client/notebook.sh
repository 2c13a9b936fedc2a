# SPDX-License-Identifier: Apache-2.0
# deploy/colab.ipynb from top to bottom, with a directory for the drive; the "VM" is lost during training, and the
# notebook continues on the next one.
. "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/wheel.sh"
for notebook in colab colab_sana; do
    # Without an address the first cell asks for it.
    code 1 $python -c 'import json, sys
notebook = json.load(open(sys.argv[1]))
assert notebook["metadata"]["accelerator"] == "GPU"
assert any("dashboard" in cell["id"] for cell in notebook["cells"])
exec("".join(next(c for c in notebook["cells"] if c["cell_type"] == "code")["source"]))' "$TOP/deploy/$notebook.ipynb"
    has 'Where is jobctl to come from? Set WHEEL or REPO in this cell.' err
done
$python -c 'import nbclient, ipykernel' 2>/dev/null || { echo "python3-nbclient is not installed"; exit 77; }

export NVCC= # the plugin for CUDA takes minutes
# notebook FIELD=VALUE... - run it on the VM: state, home, Python and working directory, at the same paths on each VM.
vm=$WORK/vm
notebook() {
    make_jupyter "$vm"
    (cd "$vm" && exec env JOBCTL_HOME="$vm/state" HOME="$vm" IPYTHONDIR="$vm/ipython" PYTHONDONTWRITEBYTECODE=1 setsid \
        "$vm/python/bin/python" "$TOP/tests/payload/run_notebook.py" "$TOP/deploy/colab.ipynb" out.ipynb \
        DRIVE="$WORK/drive" STEPS=160 "$@")
}
# Every process that has the VM in its environment.
of_vm() { grep -lsz "^JOBCTL_HOME=$vm/state\$" /proc/[0-9]*/environ | sed 's|/proc/\([0-9]*\)/.*|\1|' || true; }

notebook REPO="$TOP" >"$WORK/first.log" 2>&1 &
mirrored() { ls "$WORK"/drive/icons/checkpoints/step-*; }
wait_for 200 "a checkpoint on the drive" mirrored || { cat "$WORK/first.log"; exit 1; }
all_killed() { # who is being started while others end is found the next time
    local left
    left=$(of_vm)
    for pid in $left; do kill -9 "$pid" 2>/dev/null || true; done
    [ -z "$left" ] || { echo "left: $left"; return 1; }
}
wait_for "all processes of the VM end" all_killed
wait $! || true
rm -rf "$vm"
[ ! -e "$WORK/drive/icons/checkpoints/step-00000160" ] || { echo "it was over before the VM was gone"; exit 1; }

# The second VM takes the wheel instead of the clone.
notebook WHEEL="$(ls -t "$TOP"/build/*.whl | head -n 1)" >"$WORK/second.log" 2>&1 || { tail -n 30 "$WORK/second.log"; exit 1; }
$python - "$vm/out.ipynb" <<'PY'
import json, re, sys
outputs = [o for c in json.load(open(sys.argv[1]))["cells"] for o in c.get("outputs", [])]
text = "".join("".join(o.get("text", "")) for o in outputs)
pictures = sum("image/png" in o.get("data", {}) for o in outputs)
for wanted in ("goes on with what is on the drive", "restored from the mirror", "160/160", "succeeded"):
    assert wanted in text, (wanted, text)
assert "job 1 begins" not in text and pictures == 1, (pictures, text)
assert re.search(r'proxyPort\([1-9][0-9]+\)(?s:.)*url.hash = "[^"]+"', text), text
PY
[ -x "$vm/python/lib/jobctl/bin/jobctl" ]
for pid in $(of_vm); do kill "$pid"; done
nobody_there() { of_vm; [ -z "$(of_vm)" ]; }
wait_for "the processes of the second VM end" nobody_there
