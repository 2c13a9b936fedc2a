# SPDX-License-Identifier: Apache-2.0
# Any number of ranks resumes from the checkpoint of any other number: 7 -> 6, 6 -> 7, 1 -> 8, 8 -> 1 and 3 -> 5. With
# reproducible: true the bits are those of an uninterrupted single rank; without it the samples are the same, and the
# losses differ only by rounding.
. "$TOP/tests/e2e/ranks.sh"
spec() { # DIR STEPS EXACT
    cat >"$1.json" <<JSON
{"schema":1,"train":{"model":{"preset":"tiny"},"data":{"path":"$TOP/templates/data/tango-icons",
 "caption_words":4,"caption_channels":32},"batch":{"global":11,"micro":2},"steps":$2,"ema":0.9,
 "optimizer":{"lr":1e-3},"reproducible":$3,"sample":{"after":false}},
 "checkpoint":{"every":{"steps":5},"keep":9,"dir":"$1"}}
JSON
}
# ranks N DIR STEPS EXACT: to the end
ranks() {
    spec "$2" "$3" "$4"
    run_ranks "$1" "$2"
}
bits() { cat "$1"/step-00000010/{model,optimizer}.safetensors | sha256sum; }
# near A B: the same losses, step by step, to five digits
near() {
    paste -d' ' "$1/metrics.jsonl" "$2/metrics.jsonl" |
        sed 's/[^0-9.e+-]*"[a-z_]*":/ /g; s/[{}]//g' | awk '
        { n++; d = $2 - $7; if (d < 0) d = -d; if ($1 != $6 || d > 1e-5 * $2) bad = bad " " $1 }
        END { if (n != 10 || bad != "") { print n " lines, far at" bad; exit 1 } }'
}

for exact in true false; do
    ranks 1 "$WORK/one-$exact" 10 $exact
    for n in 1 3 6 7 8; do
        ranks $n "$WORK/from-$n" 5 $exact
    done
    for pair in "7 6" "6 7" "1 8" "8 1" "3 5"; do
        set -- $pair
        to="$WORK/$1-$2-$exact"
        cp -r "$WORK/from-$1" "$to"
        ranks "$2" "$to" 10 $exact
        grep -q 'resumed: step 5' "$to.log"
        near "$WORK/one-$exact" "$to"
        [ $exact = false ] || [ "$(bits "$WORK/one-$exact")" = "$(bits "$to")" ] ||
            { echo "$1 -> $2: other bits"; exit 1; }
        echo "$1 -> $2, reproducible: $exact: as one rank"
    done
    rm -r "$WORK"/from-*
done
# Not by chance: floats added in another order do differ.
[ "$(bits "$WORK/one-false")" != "$(bits "$WORK/8-1-false")" ]
