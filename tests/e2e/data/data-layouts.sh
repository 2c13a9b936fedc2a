# SPDX-License-Identifier: Apache-2.0
# The same pictures as a folder, as Hugging Face's metadata.jsonl or .csv, as meta_data.json and as tar shards train to the same
# loss; the plan says how they are read; several layouts in one folder are an error.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
python3 "$TOP/tests/e2e/pictures.py" list
python3 - <<'PY'
import csv, json, os, shutil, tarfile, io
rows = [json.loads(line) for line in open("list/captions.jsonl")][:12]
for d in ("folder", "hub", "csv", "meta", "shards"):
    os.mkdir(d)
for i, row in enumerate(rows):
    for d in ("folder", "hub", "csv", "meta"):
        shutil.copy("list/" + row["file"], f"{d}/{i:02}.png")
    for d in ("folder", "meta"):
        open(f"{d}/{i:02}.txt", "w").write(row["text"] + "\n")
with open("hub/metadata.jsonl", "w") as f:
    for i, row in enumerate(rows):
        f.write(json.dumps({"file_name": f"{i:02}.png", "text": row["text"]}) + "\n")
with open("csv/metadata.csv", "w", newline="") as f:
    csv.writer(f, quoting=csv.QUOTE_ALL).writerows([["file_name", "text"]] + [[f"{i:02}.png", r["text"]] for i, r in enumerate(rows)])
json.dump({"img_names": [f"{i:02}" for i in range(12)]}, open("meta/meta_data.json", "w"))
for shard in (0, 1):
    with tarfile.open(f"shards/{shard}.tar", "w") as t:
        for i in range(6 * shard, 6 * shard + 6):
            text = json.dumps({"height": 1, "width": 1, "prompt": rows[i]["text"]}).encode()
            t.add(f"folder/{i:02}.png", f"{i:02}.png")
            info = tarfile.TarInfo(f"{i:02}.json")
            info.size = len(text)
            t.addfile(info, io.BytesIO(text))
PY
spec() { # spec FOLDER >FILE
    cat <<JSON
{"schema":1,"train":{"model":{"preset":"tiny"},"data":{"path":"$WORK/$1","resolution":32,"caption_words":4,
 "caption_channels":32},"batch":{"global":4},"steps":4,"sample":{"after":false}},
 "checkpoint":{"every":{"steps":4},"dir":"$WORK/run-$1"}}
JSON
}
losses() { python3 -c 'import json, sys
print([json.loads(line)["loss"] for line in open(sys.argv[1])])' "run-$1/metrics.jsonl"; }
for d in folder hub csv meta shards; do
    spec "$d" >"$d.json"
    RANK=0 WORLD_SIZE=1 JOBCTL_RUN_DIR="$WORK" OMP_NUM_THREADS=1 jobctl-train train --spec "$d.json" >"$d.log" 2>&1 ||
        { cat "$d.log"; exit 1; }
    losses "$d" >"$d.losses"
    cmp folder.losses "$d.losses"
done

code 0 jobctl-train plan --spec shards.json
has 'layout: tar shards, 12 samples in 2 files' out
has 'area average or linear to cover the size, centre crop; no flip' out
code 0 jobctl-train verify-data --spec shards.json
has 'data        12 samples' out

# Two layouts in one folder.
cp shards/0.tar hub/
code 65 jobctl-train verify-data --spec hub.json
has 'holds both metadata.jsonl and 0.tar, which are different layouts: move one of them away' err
