# SPDX-License-Identifier: Apache-2.0
# Wrong data is named by file and line, every sample, in each layout; a run ends with exit code 65 at the first one.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
spec() { # spec FOLDER MORE >FILE
    cat <<JSON
{"schema":1,"train":{"model":{"preset":"tiny"},"data":{"path":"$WORK/$1","resolution":32,"caption_words":8,
 "caption_channels":32$2},"batch":{"global":2},"steps":2,"sample":{"after":false}},
 "checkpoint":{"every":{"steps":4},"dir":"$WORK/run"}}
JSON
}

# All captions are missing.
mkdir bare
cp "$TOP"/tests/golden/data/img/cat.png bare/
cp "$TOP"/tests/golden/data/img/cat.png bare/dog.png
spec bare '' >bare.json
code 65 jobctl-train verify-data --spec bare.json
has 'cat.png has no caption: there is no cat.txt, and no cat.json with a "prompt"' out
has 'dog.png has no caption' out
has "data        2 samples, 0 bytes read: 2 errors" out

# A list with a picture that is missing, a line that is no JSON, and a good one.
mkdir lines
cp bare/cat.png lines/
printf '%s\n' '{"file_name": "cat.png", "text": "a cat"}' '{"file_name": "dog.png", "text": "a dog"}' '{' \
    >lines/metadata.jsonl
spec lines '' >lines.json
code 65 jobctl-train verify-data --spec lines.json
has "metadata.jsonl:2 cannot read the picture $WORK/lines/dog.png: No such file" out
has 'metadata.jsonl:3 expected {"file_name": "NAME", "text": "CAPTION"}' out
has ' KiB read: 2 errors' out
has 'data        3 samples, ' out
RANK=0 WORLD_SIZE=1 JOBCTL_RUN_DIR="$WORK" code 65 jobctl-train train --spec lines.json
has 'metadata.jsonl:2: ' err

# Shards: the authors' example has one broken picture, and one whose description lies about its size.
cp -r "$TOP/tests/golden/data/wds" wds
spec wds ',"score_suffixes":["_prompt_clip_score"],"score_min":25,"score_temperature":0.1' >wds.json
code 65 jobctl-train verify-data --spec wds.json
has '00000001.tar/00006.png is not a readable PNG picture' out
has '00000001.tar/00004.png is 50 x 50 pixels, but described as 100 x 25' out
has '1 error' out
# A shard that is cut off, one that is compressed: each is told, beside what can be read.
mkdir cut
cp wds/00000000.tar cut/
truncate -s 5000 cut/00000000.tar
gzip -c wds/00000000.tar >cut/00000001.tar
spec cut '' >cut.json
code 65 jobctl-train verify-data --spec cut.json
has ' the archive is cut off: a member at byte 1024 has 3646 bytes, the file ends at 5000' out
has ' is not a plain tar archive: unpack one that is compressed' out
rm cut/00000000.tar
code 65 jobctl-train verify-data --spec cut.json
has ' is not a plain tar archive: unpack one that is compressed' out
has 'cut holds no samples' err
truncate -s 5000 wds/00000000.tar
code 65 jobctl-train verify-data --spec wds.json
has '00000000.tar' out

# Features: each latent by its bucket, each text by its length.
spec /feat "" | sed "s#$WORK//feat#$TOP/tests/golden/data/feat#;s#\"resolution\":32#\"resolution\":512,\"multi_scale\":true,\"encoders\":\"features\",\"text_features\":\"$TOP/tests/golden/data/feat\"#" >feat.json
code 65 jobctl-train verify-data --spec feat.json
has 'f3.npy is a latent of 15 x 16, but its height and width belong to 512 x 512 pixels, which have 16 x 16' out
has 'f4.npz has 11 rows of text; at most 8 are trained on' out
has '5 samples' out
sed -i 's/,"text_features":"[^"]*"//' feat.json
code 64 jobctl-train verify-data --spec feat.json
has 'train.data.text_features: missing; name the folder with KEY.npz' err
