# SPDX-License-Identifier: Apache-2.0
# However a run ends, its exit code and its last progress line agree.
data=$TOP/templates/data/tango-icons
spec() { # NAME TRAIN-MEMBERS...: a spec of four small steps with changes
    cat >"$WORK/$1.json" <<JSON
{"schema":1,"train":{"model":{"preset":"tiny"},"data":{"path":"${DATA:-$data}"},
 "batch":{"global":4},"steps":4,"sample":{"after":false}${2:+,$2}},
 "checkpoint":{"every":{"steps":2},"dir":"$WORK/$1.ckpt"}}
JSON
}

# ends NAME CODE CAUSE SENTENCE: run it and compare
ends() {
    rc=0
    JOBCTL_EVENT_FD=9 jobctl-train train --spec "$WORK/$1.json" 9>"$WORK/$1.events" \
        >"$WORK/$1.out" 2>"$WORK/$1.err" || rc=$?
    last=$(tail -n 1 "$WORK/$1.events")
    echo "$1: exit $rc, $last"
    [ $rc = "$2" ]
    case $last in *"\"cause\":\"$3\",\"exit_code\":$2"*) ;; *) return 1 ;; esac
    grep -q "$4" "$WORK/$1.err"
}

spec good
JOBCTL_EVENT_FD=9 jobctl-train train --spec "$WORK/good.json" 9>"$WORK/good.events"
[ "$(tail -n 1 "$WORK/good.events" | cut -c 1-20)" = '{"ev":"done","step":' ]
grep -q '"ev":"started".*"params":' "$WORK/good.events"
[ "$(grep -c '"ev":"checkpoint"' "$WORK/good.events")" = 2 ]

spec typo '"stepz":3'
ends typo 64 config_error 'train.stepz: unknown key'
printf '{"train":' >"$WORK/torn.json"
ends torn 64 config_error 'torn.json:1: '
spec ranks
WORLD_SIZE=2 RANK=1 ends ranks 64 config_error 'ranks cannot find each other: set JOBCTL_RUN_DIR'
WORLD_SIZE=2 RANK=2 ends ranks 64 config_error 'RANK is 2; with WORLD_SIZE 2 it must be at most 1'
DATA=$WORK/nothing spec nodata
ends nodata 65 data_error 'nothing'

mkdir "$WORK/broken"
cp "$data"/folder.png "$data"/folder.txt "$data"/printer.png "$data"/printer.txt "$WORK/broken"
truncate -s 700 "$WORK/broken/printer.png"
DATA=$WORK/broken spec broken
ends broken 65 data_error 'broken/printer.png is not a readable PNG picture'

spec nan '"optimizer":{"lr":10.0,"clip":0}'
sed -i 's/"steps":4/"steps":400/' "$WORK/nan.json"
ends nan 76 nan_loss 'of step [0-9]* is -\?\(nan\|inf\)'

# a disk that is full: a small one of our own where we may mount, a limit on files elsewhere
spec full
mkdir "$WORK/full.ckpt"
if mount -t tmpfs -o size=600k none "$WORK/full.ckpt" 2>/dev/null; then
    trap 'umount "$WORK/full.ckpt"' EXIT
    ends full 78 disk_full 'No space left'
    [ -z "$(ls -d "$WORK"/full.ckpt/step-* "$WORK"/full.ckpt/.tmp-* 2>/dev/null)" ]
else
    (
        trap '' XFSZ
        ulimit -f 400
        ends full 78 disk_full 'cannot\|File too large'
    )
    [ -z "$(ls -d "$WORK"/full.ckpt/step-* "$WORK"/full.ckpt/.tmp-* 2>/dev/null)" ]
fi
