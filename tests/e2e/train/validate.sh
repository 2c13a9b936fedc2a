# SPDX-License-Identifier: Apache-2.0
# Pictures of train.validate: encoded prompts, one file per prompt and step, a sheet; the same with several ranks, with
# every sharing, and after any number of kills.
. "$TOP/tests/e2e/wait.sh"
. "$TOP/tests/e2e/encoders.sh"
. "$TOP/tests/e2e/ranks.sh"
cd "$WORK"
make_pipe pipe
take_pictures pics 5
printf 'a prompt' >pics.chi

# spec NAME PARALLEL
spec() {
    encode_spec "$1.json" "$WORK/pics" "\"instruction\":\"$WORK/pics.chi\""
    python3 - "$1.json" "$2" <<'PY'
import sys
sys.path.pop(0)
import json
path, parallel = sys.argv[1:]
job = json.load(open(path))
job['train'].update(steps=5, parallel=parallel, reproducible=True, ema=0.5, validate={
    'prompts': ['a red face', 'An unknown thing', 'a red face'], 'every': {'steps': 2}, 'steps': 4, 'seed': 7})
job['checkpoint'].update(every={'steps': 1 if parallel == 'ddp' else 1000}, keep=9)
json.dump(job, open(path, 'w'))
PY
}
sums() { (cd "$1.json.ckpt/samples" && md5sum prompt*.png); }
same() {
    sums "$1" >"$1.sums"
    diff one.sums "$1.sums" || { echo "$1: other pictures"; cat "$1".*.log; exit 1; }
}

spec one ddp
rank 0 1 one || { cat one.0.log; exit 1; }
sums one >one.sums
# Steps 0, 2, 4 and the last one, three prompts; equal prompts have equal noise, and other weights other pictures.
[ "$(grep -c prompt- one.sums)" = 12 ] && grep -q prompts.png one.sums || { cat one.sums; exit 1; }
cd one.json.ckpt/samples
cmp prompt-01.step-00000002.png prompt-03.step-00000002.png
! cmp -s prompt-01.step-00000002.png prompt-02.step-00000002.png || exit 1
! cmp -s prompt-01.step-00000000.png prompt-01.step-00000005.png || exit 1
cd "$WORK"
# Without its text the cache has no prompts either: sampling computes nothing.
rm -r pics.encoded/text-*/*
! jobctl-train sample --dir one.json.ckpt --out x.png 2>/dev/null || exit 1

for how in ddp zero1 fsdp; do
    spec "$how" "$how"
    rank 0 2 "$how" & first=$!
    rank 1 2 "$how" || { cat "$how".*.log; exit 1; }
    wait $first || { cat "$how".*.log; exit 1; }
    same "$how"
done
# What is drawn comes from the ranks: no checkpoint is written for it.
for how in zero1 fsdp; do
    [ "$(cd $how.json.ckpt && echo step-*)" = step-00000005 ] || { ls $how.json.ckpt; exit 1; }
done

# Killed after some milliseconds, each time a few more, until it has had the time to end.
spec killed ddp
kill_until_it_ends killed 60
same killed

# A picture of the last step that was lost is drawn again; nothing else is.
rm killed.json.ckpt/samples/prompt-02.step-00000005.png killed.json.ckpt/samples/prompts.png
rank 0 1 killed || { cat killed.0.log; exit 1; }
same killed

# What cannot be drawn is a warning, not the end of the run.
spec broken ddp
mkdir -p broken.json.ckpt && touch broken.json.ckpt/samples
rank 0 1 broken || { cat broken.0.log; exit 1; }
grep -q 'no pictures: .*samples' broken.0.log || { cat broken.0.log; exit 1; }
