# SPDX-License-Identifier: Apache-2.0
# deploy/colab.ipynb from top to bottom, with a directory for the drive; the "VM" is thrown away in the middle
# of the training, and on the next one the notebook goes on.
. "$TOP/tests/e2e/expect.sh"
python=/usr/bin/python3
# Without an address the first cell says what to set.
for notebook in colab colab_sana; do
    code 1 $python -c 'import json, sys
cells = json.load(open(sys.argv[1]))["cells"]
exec("".join(next(c for c in cells if c["cell_type"] == "code")["source"]))' "$TOP/deploy/$notebook.ipynb"
    has 'Set REPO or TARBALL in this cell' err
done
$python -c 'import nbclient, ipykernel' 2>/dev/null || { echo "python3-nbclient is not installed"; exit 77; }

# Each VM has a state, a home and a working directory of its own; all of it goes with the VM.
on() {
    local vm=$WORK/$1
    mkdir -p "$vm/ipython"
    shift
    (cd "$vm" && exec env JOBCTL_HOME="$vm/state" HOME="$vm" IPYTHONDIR="$vm/ipython" JOBCTL_REPO="$TOP" \
        JOBCTL_DRIVE="$WORK/drive" JOBCTL_STEPS=160 PYTHONDONTWRITEBYTECODE=1 setsid "$@")
}
# Every process that has this VM in its environment.
of_vm() { grep -lsz "^JOBCTL_HOME=$WORK/$1/state\$" /proc/[0-9]*/environ | sed 's|/proc/\([0-9]*\)/.*|\1|' || true; }

on vm1 $python "$TOP/tests/payload/run_notebook.py" "$TOP/deploy/colab.ipynb" first.ipynb >"$WORK/first.log" 2>&1 &
mirrored() { ls "$WORK"/drive/icons/checkpoints/step-*; }
wait_for 200 "a checkpoint on the drive" mirrored || { cat "$WORK/first.log"; exit 1; }
all_killed() { # who is being started while others end is found the next time
    local left
    left=$(of_vm vm1)
    for pid in $left; do kill -9 "$pid" 2>/dev/null || true; done
    [ -z "$left" ] || { echo "left: $left"; return 1; }
}
wait_for "all processes of the VM end" all_killed
wait $! || true
rm -rf "$WORK/vm1"
[ ! -e "$WORK/drive/icons/checkpoints/step-00000160" ] || { echo "it was over before the VM was gone"; exit 1; }

# The second VM takes a release instead of the clone: what `make install` installs, as a tarball.
release=$WORK/release/jobctl
mkdir -p "$WORK/build/completions" "$release"
ln -s "$BIN" "$BIN/../lib" "$WORK/build"
for shell in bash zsh fish; do jobctl completions $shell >"$WORK/build/completions/$shell"; done
"$TOP/deploy/install.sh" install "$WORK/build" "$release" "" jobctl jobctl-agent jobctl-train
tar -C "$WORK/release" -c jobctl | zstd -q -1 >"$WORK/release.tar.zst"
export JOBCTL_TARBALL=$WORK/release.tar.zst JOBCTL_WORK=$WORK/vm2/jobctl

on vm2 $python "$TOP/tests/payload/run_notebook.py" "$TOP/deploy/colab.ipynb" second.ipynb >"$WORK/second.log" 2>&1 ||
    { tail -n 30 "$WORK/second.log"; exit 1; }
$python - "$WORK/vm2/second.ipynb" <<'PY'
import json, sys
outputs = [o for c in json.load(open(sys.argv[1]))["cells"] for o in c.get("outputs", [])]
text = "".join("".join(o.get("text", "")) for o in outputs)
pictures = sum("image/png" in o.get("data", {}) for o in outputs)
for wanted in ("goes on with what is on the drive", "restored from the mirror", "160/160", "succeeded"):
    assert wanted in text, (wanted, text)
assert "job 1 begins" not in text and pictures == 1, (pictures, text)
PY
[ "$(readlink "$WORK/vm2/jobctl/bin/jobctl")" = ../lib/jobctl/bin/jobctl ]
for pid in $(of_vm vm2); do kill "$pid"; done
nobody_there() { of_vm vm2; [ -z "$(of_vm vm2)" ]; }
wait_for "the processes of the second VM end" nobody_there
