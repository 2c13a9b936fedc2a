# SPDX-License-Identifier: Apache-2.0
# The recipe of templates/sana-icons.yaml: what it draws is what it was shown. SEEDS="1 2 3" for more.
cd "$WORK"
for seed in ${SEEDS:-1}; do
    jobctl submit --dry-run "$TOP/templates/sana-icons.yaml" --set train.seed="$seed" \
        --set train.sample.before=false --set train.sample.after=false \
        --set checkpoint.dir="$WORK/seed-$seed" --set "checkpoint.every=400 steps" >spec.json
    jobctl-train train --spec spec.json >train.log 2>&1 || { tail train.log; exit 1; }
    score=$(jobctl-train sample --dir "$WORK/seed-$seed" --score --out "grid-$seed.png")
    echo "seed $seed: $score"
    awk -F'[:,}]' '{ if ($6 < 0.85 || $8 < 22) exit 1 }' <<<"$score"
done
