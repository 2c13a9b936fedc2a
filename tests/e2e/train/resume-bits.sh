# SPDX-License-Identifier: Apache-2.0
# Forty steps without a break give the same bits as seventeen, kill -9 and the rest; also if the newest checkpoint is
# damaged, or the run was stopped by SIGTERM.
spec() { # DIR: checkpoints every 5 steps
    cat <<JSON
{"schema":1,"train":{"model":{"preset":"tiny"},"data":{"path":"$TOP/templates/data/tango-icons",
 "caption_words":4,"caption_channels":32},"batch":{"global":7,"micro":3},"steps":40,"ema":0.9,
 "optimizer":{"lr":1e-3},"schedule":{"type":"cosine","warmup":5},
 "sample":{"after":false}},"checkpoint":{"every":{"steps":5},"keep":3,"dir":"$1"}}
JSON
}

# train DIR: run to the end; its lines in DIR.log
train() {
    spec "$1" >"$1.json"
    jobctl-train train --spec "$1.json" >>"$1.log" 2>&1
}

# until_step DIR N: start in the background, wait for the checkpoint of a step >= N; sets $pid
until_step() {
    mkfifo "$1.events"
    spec "$1" >"$1.json"
    JOBCTL_EVENT_FD=9 jobctl-train train --spec "$1.json" 9>"$1.events" >>"$1.log" 2>&1 &
    pid=$!
    exec 8<"$1.events"
    while read -r -u 8 line; do
        case $line in
        *'"ev":"step"'*)
            step=${line#*\"step\":}
            [ "${step%%,*}" -lt "$2" ] || break
            ;;
        *'"ev":"failed"'*) echo "$line"; exit 1 ;;
        esac
    done
}

same() { # DIR: its last checkpoint has the bits of the straight run
    for f in model.safetensors optimizer.safetensors; do
        cmp "$WORK/straight/step-00000040/$f" "$1/step-00000040/$f"
    done
    # the story of the losses has no hole and no repetition
    cut -d, -f1,2 "$1/metrics.jsonl" | cmp - "$WORK/straight.losses"
}

train "$WORK/straight"
cut -d, -f1,2 "$WORK/straight/metrics.jsonl" >"$WORK/straight.losses"
[ "$(wc -l <"$WORK/straight.losses")" = 40 ]

until_step "$WORK/killed" 17
kill -9 $pid
wait $pid || true
exec 8<&-
[ ! -e "$WORK/killed/step-00000040" ]
train "$WORK/killed"
grep -q 'resumed: step 1[0-9]\|resumed: step 2' "$WORK/killed.log"
same "$WORK/killed"

# twice, and the newest checkpoint damaged in between
until_step "$WORK/damaged" 12
kill -9 $pid
wait $pid || true
exec 8<&-
newest=$(ls -d "$WORK/damaged"/step-* | tail -n 1)
printf 'x' | dd of="$newest/optimizer.safetensors" bs=1 seek=5000 conv=notrunc 2>/dev/null
train "$WORK/damaged"
grep -q 'optimizer.safetensors does not match the digest' "$WORK/damaged/quarantine"/*/reason.txt
same "$WORK/damaged"

# SIGTERM: a checkpoint at the step boundary, exit 75, then the rest
until_step "$WORK/stopped" 8
kill -TERM $pid
rc=0
wait $pid || rc=$?
exec 8<&-
[ $rc = 75 ]
train "$WORK/stopped"
same "$WORK/stopped"

# resume: none does not walk over what is there
sed 's/"schema":1/"schema":1,"resume":"none"/' "$WORK/stopped.json" >"$WORK/none.json"
rc=0
jobctl-train train --spec "$WORK/none.json" 2>"$WORK/none.err" || rc=$?
[ $rc = 64 ]
grep -q 'holds a checkpoint of step 40' "$WORK/none.err"

# more steps of a run that is done go on from its end; the directory of another model is refused
sed 's/"steps":40/"steps":44/' "$WORK/stopped.json" >"$WORK/more.json"
jobctl-train train --spec "$WORK/more.json" >"$WORK/more.log" 2>&1
[ -e "$WORK/stopped/step-00000044/manifest.json" ]
sed 's/"preset":"tiny"/"preset":"tiny","depth":1/' "$WORK/stopped.json" >"$WORK/deep.json"
rc=0
jobctl-train train --spec "$WORK/deep.json" 2>"$WORK/deep.err" || rc=$?
[ $rc = 64 ]
grep -q 'a different model' "$WORK/deep.err"

# ... but none means none only for the first start: a restart of the same job goes on from its own
JOBCTL_GENERATION=2 jobctl-train train --spec "$WORK/none.json" >"$WORK/again.log" 2>&1
grep -q 'resumed: step 44' "$WORK/again.log"
