# SPDX-License-Identifier: Apache-2.0
# Encoding that cannot work is refused with one sentence by plan, doctor, submit and its dry run alike: an invalid
# encoder, a size, an instruction, a cache that cannot be created, features without text; and nothing is left behind.
. "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/encoders.sh"
cd "$WORK"
make_pipe pipe
take_pictures pics 6
cat >job.yaml <<YAML
name: new
resources: {gpus: 0, ranks: 1}
train:
  model: {preset: tiny}
  data: {path: pics, encoders: sana, vae: pipe, text_encoder: pipe, resolution: 32, text_rows: 16}
  batch: {global: 4}
  steps: 2
YAML

# refused SENTENCE SET...: the same sentence from each of the commands, and no job
refused() {
    local say=$1
    shift
    code 2 jobctl plan job.yaml "${@/#/--set=}"
    has "$say" err
    code 2 jobctl submit job.yaml --dry-run "${@/#/--set=}"
    has "$say" err
    code 2 jobctl submit job.yaml "${@/#/--set=}"
    has "$say" err
    jobctl doctor job.yaml "${@/#/--set=}" >out 2>&1 || :
    grep -q "^fail" out || { cat out; exit 1; }
    has "$say" out
}
refused "train.data.text_encoder: $WORK/pics has no config.json: name a folder as Gemma is published" \
    train.data.text_encoder=pics
refused "train.data.vae: " train.data.vae=pics
refused "train.data.resolution: 30 is not a multiple of 4, the pixels of a latent's position times train.model.patch; take 28" \
    train.data.resolution=30
: >none.txt
refused "train.data.instruction: $WORK/none.txt is empty; for captions without an instruction remove the key, or set it to null" \
    train.data.instruction=none.txt
: >file
refused "train.data.cache: $WORK/file/cache cannot be made in $WORK/file: it is no folder; name a folder in which you can write" \
    train.data.cache=file/cache
refused "train.data.cache: /proc/cache cannot be made in /proc: No such file or directory; name a folder" \
    train.data.cache=/proc/cache
mkdir features text
cp "$TOP"/tests/golden/data/wds/00000000.tar features/
( cd "$TOP/tests/golden/data" && find . -name '*.npy' | head -n 1 ) >npy
python3 - <<'PY'
import io, tarfile
with tarfile.open('features/00000000.tar', 'w') as tar:
    for name, data in (('cat.json', b'{"height": 32, "width": 32, "prompt": "a cat"}'), ('cat.npy', b'none')):
        info = tarfile.TarInfo(name)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
PY
sed 's/data: .*/data: {path: features, encoders: features, resolution: 32}/' job.yaml >features.yaml
mv job.yaml pictures.yaml
mv features.yaml job.yaml
refused "train.data.text_features: missing; name the folder with KEY.npz for the latents in $WORK/features"
mv pictures.yaml job.yaml
[ "$(jobctl list --json | read_json value "len(o['jobs'])" 2>/dev/null || echo 0)" = 0 ]

# A suffix that no file has, and folders of classes: plan and doctor say what is there.
stem=$(basename "$(find pics -name '*.png' | sort | head -n 1)" .png)
echo '{}' >"pics/${stem}_vlm.json"
for command in plan doctor; do
    ! jobctl $command job.yaml --set 'train.data.caption_suffixes=[_vim]' >out 2>err || { cat out; exit 1; }
    cat err >>out
    has "train.data.caption_suffixes: there is no file NAME_vim.json beside the pictures in $WORK/pics; suffixes that are there: _vlm" out
done
rm pics/*_vlm.json
mkdir classes
cp -r pics classes/icons
code 2 jobctl plan job.yaml --set train.data.path=classes
has 'folders with some, which are not read: icons; name one of them in train.data.path' err

# An instruction that is null is none: the plan is that of a spec without it.
jobctl plan job.yaml | sed '/GFLOP\/s/d; / free/d' >without
jobctl plan job.yaml --set train.data.instruction=null | sed '/GFLOP\/s/d; / free/d' >with
diff without with
# Sizes are told in a unit that shows them, each command tells its arguments.
grep -q 'encode      6 of 6 pictures and 7 of 7 captions; 6.0 KiB of latents and about [0-9.]* KiB of text in ' without ||
    { cat without; exit 1; }
jobctl doctor job.yaml >out || :
grep -q 'encode .*; cache of [0-9.]* KiB in ' out || { cat out; exit 1; }
for command in train bench vae inspect plan; do
    code 0 jobctl-train $command --help
    grep -q "^jobctl-train $command " out || { cat out; exit 1; }
done

# The cache of one shard lies beside the folder that the shard is in; nothing was written by all this.
mkdir shards
cp "$TOP"/tests/golden/data/wds/00000000.tar shards/
jobctl plan job.yaml --set train.data.path=shards/00000000.tar >out 2>&1 || { cat out; exit 1; }
grep -q "of text in $WORK/shards.encoded$" out || { cat out; exit 1; }
[ "$(ls shards)" = 00000000.tar ]
[ -z "$(find . -name '*.encoded' -o -name '.tmp-*')" ]
