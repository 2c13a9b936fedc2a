# SPDX-License-Identifier: Apache-2.0
# Training continues while a checkpoint is written to a slow disk, with one rank and with several, and gives the same
# bits as on a fast disk. If the run is killed during the write, no partial checkpoint remains, and the resumed run has
# the same bits, losses and samples. A failed write ends the run with the usual exit codes; a stop waits for the write;
# without memory to continue, training pauses and reports why.
. "$TOP/tests/e2e/wait.sh"
${CC:-cc} -D_GNU_SOURCE -shared -fPIC -o "$WORK/disk.so" "$TOP/tests/fake/disk.c" -ldl
past15='"ev":"step","step":\(1[6-9]\|2[0-9]\),' # not every step is told
spec() { # DIR [SEARCH REPLACE]: checkpoints every 15 of 40 steps
    sed "s/${2:-^}/${3:-}/g" >"$1.json" <<JSON
{"schema":1,"train":{"model":{"preset":"tiny"},"data":{"path":"$TOP/templates/data/tango-icons",
 "caption_words":4,"caption_channels":32,"sample_log":true},"batch":{"global":7,"micro":3},"steps":40,
 "ema":0.9,"seed":5,"optimizer":{"lr":1e-3},"schedule":{"warmup":5},"reproducible":true,
 "sample":{"after":false}},"checkpoint":{"every":{"steps":15},"keep":9,"dir":"$1"}}
JSON
}
# ranks N DIR: in the background; $pids
ranks() {
    pids=
    for r in $(seq 0 $(($1 - 1))); do
        RANK=$r WORLD_SIZE=$1 JOBCTL_RUN_DIR="$WORK" OMP_NUM_THREADS=1 JOBCTL_EVENT_FD=9 \
            LD_PRELOAD=$WORK/disk.so jobctl-train train --spec "$2.json" 9>>"$2.$r.events" \
            >>"$2.$r.log" 2>&1 &
        pids="$pids $!"
    done
}
# ends CODES: how all of $pids ended
ends() {
    codes=
    for p in $pids; do
        rc=0
        wait "$p" || rc=$?
        codes="$codes $rc"
    done
    [ "$codes" = "$1" ] || { echo "ended with$codes, expected$1"; tail -n 4 "$WORK"/*.log; exit 1; }
}
until_line() { wait_for "$2 in $1" grep "$2" "$1"; } # FILE PATTERN
# same DIR: the bits, losses and samples of the run on a fast disk
same() {
    for f in model.safetensors optimizer.safetensors; do
        cmp "$WORK/fast/step-00000040/$f" "$1/step-00000040/$f"
    done
    cut -d, -f1,2 "$1/metrics.jsonl" | cmp - "$WORK/fast.losses"
    jobctl-train verify-data --spec "$1.json" --dir "$1" >"$1.data"
}
# order DIR: a step was told before the checkpoint of step 15
order() {
    grep "$past15\|\"ev\":\"checkpoint\",\"step\":15," "$1.0.events" | head -n 1 | grep "$past15"
}
# times DIR: of each checkpoint, until it was whole, and that training paused for, in ms
times() {
    read_json each ev=checkpoint ms stall_ms <"$1.0.events"
}
# meanwhile N DIR CODES: one that is asked for costs steps a small part of the time until it is whole
meanwhile() {
    spec "$2" '"steps":\(15\|40\)' '"steps":4000000'
    mkfifo "$2.control"
    exec 7<>"$2.control"
    JOBCTL_CONTROL_FD=7 ranks "$1" "$2"
    until_line "$2.0.events" "$past15"
    echo '{"cmd":"checkpoint"}' >&7
    until_line "$2.0.events" '"ev":"checkpoint"'
    echo '{"cmd":"stop"}' >&7
    ends "$3"
    exec 7>&-
    times "$2" | awk '{ print "whole after " $1 " ms, training paused for " $2 }
        NR == 1 && ($1 < 1000 || $2 > $1 / 3) { exit 1 }'
}

spec "$WORK/fast"
ranks 1 "$WORK/fast"
ends ' 0'
cut -d, -f1,2 "$WORK/fast/metrics.jsonl" >"$WORK/fast.losses"

export FAKE_DISK_SLOW=optimizer.safetensors:400
spec "$WORK/slow"
ranks 1 "$WORK/slow"
ends ' 0'
order "$WORK/slow"
same "$WORK/slow"
spec "$WORK/slow3"
ranks 3 "$WORK/slow3"
ends ' 0 0 0'
order "$WORK/slow3"
same "$WORK/slow3"
[ "$(ls -A "$WORK/slow3" | grep -c 'step-\|tmp')" = 3 ]
FAKE_DISK_SLOW=optimizer.safetensors:600
meanwhile 1 "$WORK/asked" ' 75'
meanwhile 2 "$WORK/asked2" ' 75 75'

FAKE_DISK_SLOW=optimizer.safetensors:60000 # it is killed long before
# Killed in the middle of writing, with one rank and with three: all of them, or one.
spec "$WORK/killed"
ranks 1 "$WORK/killed"
until_line "$WORK/killed.0.events" "$past15"
kill -9 $pids
ends ' 137'
[ -n "$(ls -d "$WORK"/killed/.tmp-*-step-00000015)" ]
[ ! -e "$WORK/killed/step-00000015" ]
FAKE_DISK_SLOW=optimizer.safetensors:3000
ranks 3 "$WORK/killed"
until_line "$WORK/killed.0.events" '"ev":"checkpoint","step":15,'
until_line "$WORK/killed.0.events" '"ev":"step","step":3[1-9],'
set -- $pids
kill -9 "$3"
ends ' 74 74 137'
[ -z "$(ls -d "$WORK"/killed/.tmp-* "$WORK"/killed/step-00000030 2>/dev/null)" ]
ranks 1 "$WORK/killed"
ends ' 0'
grep -q 'resumed: step 15' "$WORK/killed.0.log"
same "$WORK/killed"

# A stop asked for meanwhile: both are whole.
spec "$WORK/stopped" '"steps":40' '"steps":4000000'
ranks 2 "$WORK/stopped"
until_line "$WORK/stopped.0.events" "$past15"
kill -TERM ${pids##* }
ends ' 75 75'
[ "$(ls "$WORK/stopped" | grep -c step-)" = 2 ]
[ "$(ls -d "$WORK/stopped"/step-*/manifest.json | wc -l)" = 2 ]
unset FAKE_DISK_SLOW

# What fails on the way, with the code of the cause, and nothing left behind.
for n in 1 2; do
    for failure in 28:78:disk_full 5:79:io_error; do
        dir=$WORK/of$n.${failure##*:}
        code=${failure#*:}
        spec "$dir"
        FAKE_DISK_FAIL=optimizer.safetensors:${failure%%:*} ranks "$n" "$dir"
        [ "$n" = 1 ] && ends " ${code%:*}" || ends " ${code%:*} 74"
        tail -n 1 "$dir.0.events" | grep -q "\"cause\":\"${code#*:}\".*cannot write a checkpoint into $dir: "
        [ -z "$(ls -d "$dir"/.tmp-* "$dir"/step-* 2>/dev/null)" ]
    done
done

# No memory to go on in.
spec "$WORK/small"
FAKE_MEMORY=9000 FAKE_DISK_SLOW=optimizer.safetensors:200 ranks 1 "$WORK/small"
ends ' 0'
grep -q '"ev":"warning","text":"training pauses while a checkpoint is written: rank 0 needs' \
    "$WORK/small.0.events"
times "$WORK/small" | awk '{ if ($2 < 0.95 * $1) exit 1 }'
same "$WORK/small"
