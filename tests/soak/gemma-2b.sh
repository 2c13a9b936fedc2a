# SPDX-License-Identifier: Apache-2.0
# A text encoder with the sizes of Gemma-2 2B: 5.2 GB of random bf16 on disk, in less than 6 GB of memory, mapped file
# included; the instruction computed once gives what it gives when it is computed with each caption.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
[ "$(df --output=avail -B1000000000 . | tail -1)" -gt 20 ] || { echo "less than 20 GB free in $WORK"; exit 77; }
mkdir model
python3 "$TOP/tests/e2e/gemma_weights.py" model
cp "$TOP/tests/golden/tokenizer/tokenizer.json" model/
printf 'Given a user prompt, generate an "Enhanced prompt" that provides detailed visual descriptions suitable for image \
generation. Evaluate the level of detail in the user prompt:\n- If it is simple, add specifics.\nUser Prompt: ' >chi
printf '%s\n' 'A cat sleeping on a chair beside a window' 'A red boat' >captions
for way in "" --no-prefix; do
    # shellcheck disable=SC2086
    code 0 jobctl-train encode --encoder model --chi chi $way --out "vectors$way" --json <captions
    cat out
    engine_json "o['captions'] == 2 and o['prefix_reused'] == (0 if '$way' else 2) and o['peak_bytes'] < 6e9"
done
python3 - <<'EOF'
import json, struct


def read(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    return {k: struct.unpack("<%df" % ((t["data_offsets"][1] - t["data_offsets"][0]) // 4),
                             data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
            for k, t in json.loads(data[8:8 + n]).items()}


once, each = read("vectors"), read("vectors--no-prefix")
for name in once:
    apart = sum((a - b) ** 2 for a, b in zip(once[name], each[name])) ** 0.5
    size = sum(a * a for a in once[name]) ** 0.5
    print(name, "relative L2 apart", apart / size)
    assert size > 0 and apart < 1e-5 * size
EOF
