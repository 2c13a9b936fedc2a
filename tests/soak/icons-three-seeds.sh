# SPDX-License-Identifier: Apache-2.0
# The recipe of the demo holds for three seeds: at least 85 % of the pictures are nearest to their
# own original, at least 22 dB on average.
cd "$WORK"
for seed in 1 2 3; do
    jobctl submit --dry-run "$TOP/templates/sana-icons.yaml" --set train.seed="$seed" \
        --set train.sample.before=false --set train.sample.after=false \
        --set checkpoint.dir="$WORK/seed-$seed" --set "checkpoint.every=400 steps" >spec.json
    jobctl-train train --spec spec.json >train.log 2>&1 || { tail train.log; exit 1; }
    score=$(jobctl-train sample --dir "$WORK/seed-$seed" --score)
    echo "seed $seed: $score"
    awk -F'[:,}]' '{ if ($6 < 0.85 || $8 < 22) exit 1 }' <<<"$score"
done
