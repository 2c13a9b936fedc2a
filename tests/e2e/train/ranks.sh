# SPDX-License-Identifier: Apache-2.0
# Several ranks train like one: the same losses, also when a rank is killed and all resume from the last checkpoint,
# when the number of ranks changes, and when one rank gets a stop. A rank that hangs or diverges is named.
. "$TOP/tests/e2e/wait.sh"
spec() { # DIR [SEARCH REPLACE]: checkpoints every 5 steps
    sed "s/${2:-^}/${3:-}/" >"$1.json" <<JSON
{"schema":1,"train":{"model":{"preset":"tiny"},"data":{"path":"$TOP/templates/data/tango-icons",
 "caption_words":4,"caption_channels":32},"batch":{"global":7,"micro":3},"steps":30,"ema":0.9,
 "optimizer":{"lr":1e-3},"schedule":{"warmup":5},
 "sample":{"after":false}},"checkpoint":{"every":{"steps":5},"keep":9,"dir":"$1"},
 "hang":{"step":3,"first_step":60}}
JSON
}

# rank N OF DIR: in the background; appends to $pids
rank() {
    RANK=$1 WORLD_SIZE=$2 JOBCTL_RUN_DIR="$WORK" OMP_NUM_THREADS=1 JOBCTL_EVENT_FD=9 \
        jobctl-train train --spec "$3.json" 9>"$3.$1.events" >>"$3.$1.log" 2>&1 &
    pids="$pids $!"
}
# ranks N DIR: all of them, to the end; $codes has how each ended
ranks() {
    pids= codes=
    for r in $(seq 0 $(($1 - 1))); do rank "$r" "$1" "$2"; done
    collect
}
collect() {
    for p in $pids; do
        rc=0
        wait "$p" || rc=$?
        codes="$codes $rc"
    done
}
# until_step DIR N: rank 0 has told of a step >= N
until_step() {
    WAIT_PAUSE_S=0.005 wait_for "step $2 of $1" past_step "$1.0.events" "$2" || { cat "$1".*.log; exit 1; }
}
# near A B: the same losses, step by step, to five digits
losses() { read_json each step loss <"$1/metrics.jsonl"; }
near() {
    paste -d' ' <(losses "$1") <(losses "$2") | awk '
        { n++; d = $2 - $4; if (d < 0) d = -d; if ($1 != $3 || d > 1e-5 * $2) bad = bad " " $1 }
        END { if (n != 30 || bad != "") { print n " lines, far at" bad; exit 1 } }'
}

spec "$WORK/one"
ranks 1 "$WORK/one"
[ "$codes" = " 0" ]
for n in 2 3 8; do
    spec "$WORK/of$n"
    ranks "$n" "$WORK/of$n"
    echo "$n ranks:$codes"
    [ -z "$(tr -d ' 0' <<<"$codes")" ]
    near "$WORK/one" "$WORK/of$n"
    [ "$(ls "$WORK/of$n" | grep -c step-)" = "$(ls "$WORK/one" | grep -c step-)" ]
done

# Two runs of the same ranks have the same bits, and a checkpoint knows nothing of ranks.
spec "$WORK/again"
ranks 3 "$WORK/again"
for f in model optimizer; do
    cmp "$WORK/of3/step-00000030/$f.safetensors" "$WORK/again/step-00000030/$f.safetensors"
done

# One is killed: the others end at once and say who it was; all go on from the last checkpoint.
spec "$WORK/killed" '"steps":30' '"steps":3000000'
pids= codes=
for r in 0 1 2; do rank $r 3 "$WORK/killed"; done
set -- $pids
until_step "$WORK/killed" 12
start=$(date +%s%3N)
kill -9 "$2"
collect
took=$(($(date +%s%3N) - start))
echo "one of three killed:$codes after $took ms"
[ "$codes" = " 74 137 74" ]
grep -q 'rank 1 died; this rank waited for it in ' "$WORK/killed.0.log"
grep -q '"ev":"failed","cause":"nccl_error","exit_code":74,"text":"rank 1 died' "$WORK/killed.2.events"

# Another number of ranks takes over what these leave; the losses are still those of one.
cp -r "$WORK/one" "$WORK/sizes"
rm -rf "$WORK/sizes"/step-000000[123]* "$WORK/sizes/step-00000030"
spec "$WORK/sizes" '"steps":30' '"steps":14'
ranks 3 "$WORK/sizes"
grep -q 'resumed: step 5' "$WORK/sizes.0.log"
spec "$WORK/sizes" '"steps":30' '"steps":20'
ranks 7 "$WORK/sizes"
spec "$WORK/sizes" '"steps":30' '"steps":25'
ranks 6 "$WORK/sizes"
spec "$WORK/sizes"
ranks 2 "$WORK/sizes"
[ "$codes" = " 0 0" ]
grep -q 'resumed: step 25' "$WORK/sizes.0.log"
near "$WORK/one" "$WORK/sizes"

# A stop asked of one rank stops all, at the same step, with a checkpoint.
spec "$WORK/asked" '"steps":30' '"steps":3000000'
pids= codes=
for r in 0 1 2; do rank $r 3 "$WORK/asked"; done
set -- $pids
until_step "$WORK/asked" 7
kill -TERM "$3"
collect
[ "$codes" = " 75 75 75" ]
at=$(sed -n 's/.*stopped on request at step \([0-9]*\) .*/\1/p' "$WORK/asked.2.log")
[ "$at" -ge 7 ]
[ -e "$WORK/asked/step-$(printf %08d "$at")/manifest.json" ]
grep -q "stopped on request at step $at " "$WORK/asked.0.log"

# One stands still: it is named when nothing has come from it for hang.step.
# (Not in a checkpoint: a rank may be alone at that for long.)
spec "$WORK/still" '"steps":30' '"steps":3000000'
sed -i 's/"every":{"steps":5}/"every":{"steps":1000000}/' "$WORK/still.json"
pids= codes=
for r in 0 1 2; do rank $r 3 "$WORK/still"; done
set -- $pids
until_step "$WORK/still" 7
kill -STOP "$2"
wait "$1" || [ $? = 74 ]
wait "$3" || [ $? = 74 ]
kill -9 "$2"
grep -q 'rank 1 is stuck or far behind: nothing arrived from it in .* for 3 s' "$WORK/still.0.log"
grep -q 'rank 1 is stuck or far behind' "$WORK/still.2.log"

# One computes something else: found before the first step.
spec "$WORK/apart"
spec "$WORK/apart2" '"lr":1e-3' '"lr":2e-3'
pids= codes=
rank 0 3 "$WORK/apart"
sed "s|$WORK/apart2|$WORK/apart|" "$WORK/apart2.json" >"$WORK/apart2.new"
mv "$WORK/apart2.new" "$WORK/apart2.json"
rank 1 3 "$WORK/apart2"
rank 2 3 "$WORK/apart"
collect
echo "one apart:$codes"
[ "$codes" = " 77 77 77" ]
grep -q 'desync: rank 1 is at step 0 bucket 8x8 like the others, with different samples' "$WORK/apart.0.log"
