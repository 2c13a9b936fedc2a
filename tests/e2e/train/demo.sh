# SPDX-License-Identifier: Apache-2.0
# alone: the demo has a time to keep
# The demo: its output is complete, and the drawn pictures resemble the training pictures (85 %, 22 dB).
cd "$WORK"
LC_ALL=C.UTF-8 "$TOP/deploy/demo.sh" "$BIN" >out 2>err || { cat out err; exit 1; }
cat out
[ ! -s err ]
dir=$(jobctl show sana-icons | sed -n 's/^ *checkpoints  *//p')
for promised in run.html samples/before.png samples/step-00000400.png step-00000400/manifest.json; do
    [ -s "$dir/$promised" ]
    [ "$promised" = samples/before.png ] || grep -qF "$dir/${promised%/manifest.json}" out
done
grep -q 'job 1 (sana-icons) succeeded' out
grep -q '24 are nearest to their own original' out
[ "$(grep -cE '^  step +[0-9]+   loss [0-9.]+$' out)" = 9 ]
score=$(jobctl-train sample --dir "$dir" --score)
echo "$score"
awk -F'[:,}]' '{ if ($6 < 0.85 || $8 < 22) exit 1 }' <<<"$score"

# The three things to try: the first two as they are printed.
eval "$(sed -n 's/^  \(.*jobctl-train sample .*\)\\$/\1/p' out) $(sed -n 's/^ *\(--captions .*\)$/\1/p' out)"
[ -s mine.png ]
eval "$(sed -n 's/^  \(.*jobctl why [0-9]*\)$/\1/p' out)" | grep -q 'succeeded'
