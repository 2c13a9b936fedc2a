# SPDX-License-Identifier: Apache-2.0
# Pictures of many shapes train together: buckets by aspect ratio, one of them per step. Three ranks have the losses of
# one, and the bits of a killed run; a rank that takes from another bucket is named within one step.
. "$TOP/tests/e2e/wait.sh"
python3 "$TOP/tests/e2e/pictures.py" "$WORK/data"

spec() { # DIR: 53 samples, 8 a step; three epochs are 19 steps or so
    cat >"$1.json" <<JSON
{"schema":1,"train":{"model":{"preset":"tiny"},"data":{"path":"$WORK/data","multi_scale":true,
 "resolution":32,"caption_words":4,"caption_channels":32},"batch":{"global":8,"micro":${MICRO:-2}},
 "steps":${STEPS:-20},"optimizer":{"lr":1e-3},"reproducible":${EXACT:-false},
 "sample":{"after":${DRAW:-false},"steps":3,"count":9}},
 "checkpoint":{"every":{"steps":3},"keep":1000,"dir":"$1"},"hang":{"step":5,"first_step":60}}
JSON
}
# begin N DIR: N ranks in the background; sets $pids
begin() {
    pids=
    for r in $(seq 0 $(($1 - 1))); do
        RANK=$r WORLD_SIZE=$1 JOBCTL_RUN_DIR="$WORK" OMP_NUM_THREADS=1 JOBCTL_EVENT_FD=9 \
            jobctl-train train --spec "$2.json" 9>"$2.$r.events" >>"$2.$r.log" 2>&1 &
        pids="$pids $!"
    done
}
finish() { # $codes has how each ended
    codes=
    for p in $pids; do
        rc=0
        wait "$p" || rc=$?
        codes="$codes $rc"
    done
}
until_line() { # DIR TEXT: rank 0 has told it
    WAIT_PAUSE_S=0.003 wait_for "$2 of $1" grep -F "$2" "$1.0.events" || { cat "$1".*.log; exit 1; }
}

# What is going to happen is told before, and the bucket that is too small is warned of.
spec "$WORK/one"
jobctl-train plan --spec "$WORK/one.json" >"$WORK/plan"
grep -q 'leftovers   21 samples do not fill the last batches of their buckets' "$WORK/plan"
grep -Eq '^ +4x16 +1 +[0-9]+ +1$' "$WORK/plan"
grep -q 'warning     bucket 4x16 has 1 sample for a batch of 8: a batch takes up to 8 epochs' "$WORK/plan"
jobctl-train plan --json --spec "$WORK/one.json" >"$WORK/plan"
python3 -c "
import json
o = json.load(open('$WORK/plan'))
assert o['samples'] == 53 and o['batches_per_epoch'] == 4 and o['leftover_per_epoch'] == 21, o
assert len(o['buckets']) == 6 and len(o['warnings']) == 3, o
assert sum(b['samples'] for b in o['buckets']) == 53 and sum(b['batches'] for b in o['buckets']) == 20, o"

DRAW=true spec "$WORK/one"
begin 1 "$WORK/one"
finish
[ "$codes" = " 0" ] || { cat "$WORK/one.0.log"; exit 1; }
grep -q 'data: 53 samples, 6 buckets, latents of up to 48 x 5 x 14' "$WORK/one.0.log"
[ "$(head -c 4 "$WORK/one/samples/step-00000020.png" | tail -c 3)" = PNG ]
jobctl-train sample --dir "$WORK/one" --score >"$WORK/score"
grep -q '"samples":9' "$WORK/score"
jobctl-train sample --dir "$WORK/one" --captions "thing 1; thing 2" --out "$WORK/own.png"

# Three ranks with ragged micro-batches: the losses of one, step by step.
MICRO=3 spec "$WORK/three"
begin 3 "$WORK/three"
finish
[ "$codes" = " 0 0 0" ]
losses() { read_json each step loss <"$WORK/$1/metrics.jsonl"; }
paste -d' ' <(losses one) <(losses three) | awk '
    { n++; d = $2 - $4; if (d < 0) d = -d; if ($1 != $3 || d > 1e-5 * $2) bad = bad " " $1 }
    END { if (n != 20 || bad != "") { print n " lines, far at" bad; exit 1 } }'

# Killed in the middle and resumed: the same bits as never killed.
spec "$WORK/straight"
begin 3 "$WORK/straight"
finish
STEPS=2000000 spec "$WORK/killed"
begin 3 "$WORK/killed"
until_line "$WORK/killed" '"ev":"checkpoint","step":9,'
set -- $pids
kill -9 "$2"
finish
[ "$codes" = " 74 137 74" ]
for d in "$WORK/killed"/step-*; do
    [ "$((10#${d##*-}))" -le 9 ] || rm -r "$d"
done
spec "$WORK/killed"
begin 3 "$WORK/killed"
finish
[ "$codes" = " 0 0 0" ]
grep -q 'resumed: step 9 ' "$WORK/killed.0.log"
cmp "$WORK/straight/step-00000020/model.safetensors" "$WORK/killed/step-00000020/model.safetensors"
cmp "$WORK/straight/step-00000020/optimizer.safetensors" "$WORK/killed/step-00000020/optimizer.safetensors"

# The same bits on any number of ranks, where that is asked for.
EXACT=true spec "$WORK/exact1"
begin 1 "$WORK/exact1"
finish
EXACT=true spec "$WORK/exact4"
begin 4 "$WORK/exact4"
finish
cmp "$WORK/exact1/step-00000020/model.safetensors" "$WORK/exact4/step-00000020/model.safetensors"

# Rank 1 takes the batch after the one that all are at: found before anything of it is used.
for n in 2 4; do
    spec "$WORK/apart$n"
    pids=
    for r in $(seq 0 $((n - 1))); do
        JOBCTL_TEST_DESYNC=$([ $r != 1 ] || echo 6) RANK=$r WORLD_SIZE=$n JOBCTL_RUN_DIR="$WORK" \
            OMP_NUM_THREADS=1 \
            jobctl-train train --spec "$WORK/apart$n.json" >"$WORK/apart$n.$r.log" 2>&1 &
        pids="$pids $!"
    done
    finish
    [ -z "$(sed 's/ 77//g' <<<"$codes")" ]
    [ "$(wc -l <"$WORK/apart$n/metrics.jsonl")" = 6 ]
done
grep -q 'desync: rank 1 is at step 6 bucket [0-9]*x[0-9]*, rank 0 [0-9]' "$WORK/apart2.0.log"
grep -q 'desync: rank 1 is at step 6 bucket [0-9]*x[0-9]*, the others [0-9]' "$WORK/apart4.3.log"
