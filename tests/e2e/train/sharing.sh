# SPDX-License-Identifier: Apache-2.0
# parallel: ddp, zero1 and fsdp compute the same: with reproducible: true the same bits on any number of ranks, also
# when one resumes from another's checkpoint; without it the losses of one rank up to rounding. A smaller micro-batch is
# weighted by its size.
. "$TOP/tests/e2e/ranks.sh"
spec() { # DIR STEPS PARALLEL EXACT
    cat >"$1.json" <<JSON
{"schema":1,"train":{"model":{"preset":"tiny"},"data":{"path":"$TOP/templates/data/tango-icons",
 "caption_words":4,"caption_channels":32},"batch":{"global":11,"micro":2},"steps":$2,"ema":0.9,
 "optimizer":{"type":"${OPTIMIZER:-adamw}","lr":1e-3,"clip":0.5},"schedule":{"warmup":3},
 "parallel":"$3","reproducible":$4,"sample":{"after":${PICTURES:-false},"count":2}},
 "checkpoint":{"every":{"steps":6},"keep":9,"dir":"$1"}}
JSON
}
# ranks N DIR STEPS PARALLEL EXACT: to the end
ranks() {
    spec "$2" "$3" "$4" "$5"
    run_ranks "$1" "$2"
}
bits() { cat "$1"/step-00000012/{model,optimizer}.safetensors | sha256sum; }
same() { # A B
    [ "$(bits "$1")" = "$(bits "$2")" ] || { echo "$2 has other bits than $1"; exit 1; }
    cut -d, -f1-3 "$1/metrics.jsonl" | cmp - <(cut -d, -f1-3 "$2/metrics.jsonl")
}
# near A B: the same losses and norms, step by step: CAME divides by small means, which rounding moves more
near() {
    paste -d' ' "$1/metrics.jsonl" "$2/metrics.jsonl" |
        sed 's/[^0-9.e+-]*"[a-z_]*":/ /g; s/[{}]//g' | awk -v most=$([ $OPTIMIZER = came ] && echo 2e-3 || echo 2e-5) '
        function far(a, b) { d = a - b; return (d < 0 ? -d : d) > most * a }
        { n++; if ($1 != $6 || far($2, $7) || far($3, $8)) bad = bad " " $1 }
        END { if (n != 12 || bad != "") { print n " lines, far at" bad; exit 1 } }'
}

for OPTIMIZER in adamw came; do
    one="$WORK/one-$OPTIMIZER"
    ranks 1 "$one" 12 ddp true
    for run in "zero1 1" "zero1 2" "fsdp 1" "fsdp 2" "fsdp 3"; do # more of adamw: train/reproducible.sh
        set -- $run
        [ $OPTIMIZER = came ] || [ $2 = 1 ] || continue
        ranks "$2" "$WORK/$OPTIMIZER-$1-$2" 12 "$1" true
        same "$one" "$WORK/$OPTIMIZER-$1-$2"
    done
    ranks 1 "$one-float" 12 ddp false
    for run in "zero1 3" "fsdp 3" "fsdp 1" "zero1 8"; do
        set -- $run
        ranks "$2" "$WORK/$OPTIMIZER-$1-$2-float" 12 "$1" false
        near "$one-float" "$WORK/$OPTIMIZER-$1-$2-float"
    done
    echo "$OPTIMIZER: one computation"
    # A checkpoint of one is read by all others.
    set -- ddp 3 fsdp 4 zero1 7 fsdp 2 ddp 1 zero1 3 ddp 2
    while [ $# -gt 2 ]; do
        to="$WORK/$OPTIMIZER-$1-$2-$3-$4"
        ranks "$2" "$to" 6 "$1" true
        ranks "$4" "$to" 12 "$3" true
        grep -q 'resumed: step 6' "$to.log"
        same "$one" "$to"
        shift 2
    done
done

# The plan says what parallel: auto takes, and why: on a machine with room for as much as each of the three takes.
${CC:-cc} -D_GNU_SOURCE -shared -fPIC -o "$WORK/memory.so" "$TOP/tests/fake/disk.c" -ldl
cat >"$WORK/plan.yaml" <<YAML
resources: {ranks: 4, gpus: 0}
train:
  model: {preset: tiny, depth: 8}
  data: {path: $TOP/templates/data/tango-icons}
  batch: {global: 4, micro: 1}
  steps: 10
  grad_checkpointing: false
  sample: {after: false}
YAML
# planned KIB HOW: what a machine of so much memory would take
planned() { LD_PRELOAD=$WORK/memory.so FAKE_MEMORY=$1 jobctl plan "$WORK/plan.yaml" --set train.parallel="$2"; }
for how in ddp zero1 fsdp; do
    mib=$(planned 8000000 $how | sed -n 's/^memory *\([0-9.]*\) MiB of .*/\1/p')
    planned "$(awk -v m="$mib" 'BEGIN { printf "%d", (m + 0.2) * 4 / 0.85 * 1024 }')" auto >"$WORK/plan"
    case $how in
    ddp) why='each rank has memory for everything (0.[0-9]* GiB)' ;;
    *) why='0.[0-9]* GiB per rank; ddp needs 0.[0-9]* GiB, and 0.[0-9]* GiB may be used' ;;
    esac
    grep -q "parallel $how: $why" "$WORK/plan" || { echo "not $how with $mib MiB"; cat "$WORK/plan"; exit 1; }
done

# Pictures are drawn from what all hold together.
OPTIMIZER=adamw PICTURES=true ranks 3 "$WORK/pictures" 12 fsdp true
ls "$WORK/pictures/samples/step-00000012.png"
OPTIMIZER=adamw PICTURES=true ranks 1 "$WORK/pictures1" 12 ddp true
cmp "$WORK"/pictures{,1}/samples/step-00000012.png
