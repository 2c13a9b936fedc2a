# SPDX-License-Identifier: Apache-2.0
# deploy/demo_sana.sh, shortened: toy encoders below 1 MB, a base model, adapters on five pictures that come closer to
# them, an export, and a picture from the exported files.
cd "$WORK"
LC_ALL=C.UTF-8 "$TOP/deploy/demo_sana.sh" "$BIN" "$WORK/demo" 60 24 >out 2>err || { cat out err; exit 1; }
grep -q 'what it learned' out
bytes=$(du -cb demo/toy/*/* | tail -n 1 | cut -f 1)
[ "$bytes" -lt 1000000 ] || { echo "the toy encoders have $bytes bytes"; exit 1; }
[ -s demo/adapters/pytorch_lora_weights.safetensors ] && [ -s demo/model/transformer/config.json ] && [ -s demo/face-monkey.png ]

# The adapters bring each prompt nearer to its own.
mean() { python3 "$TOP/tests/e2e/picture_distance.py" "$1" "$2" | sed 's/.*, \(.*\) on average/\1/'; }
n=0 nearer=0
for name in emblem-favorite face-monkey printer user-home weather-storm; do
    n=$((n + 1))
    before=$(mean "demo/own/$name.png" "demo/own.checkpoints/samples/prompt-0$n.step-00000000.png")
    after=$(mean "demo/own/$name.png" "demo/own.checkpoints/samples/prompt-0$n.step-00000024.png")
    echo "$name: $before before, $after after"
    awk -v a="$after" -v b="$before" 'BEGIN{exit !(a < b)}' && nearer=$((nearer + 1))
done
[ "$nearer" -ge 4 ]
sheet=$(find demo/own.checkpoints/samples -name 'prompt-*.png' | wc -l)
[ "$sheet" = 25 ] || { echo "$sheet pictures"; exit 1; }

# Nothing is overwritten that it has not made.
mkdir mine
! "$TOP/deploy/demo_sana.sh" "$BIN" "$WORK/mine" >out 2>&1 || exit 1
grep -q 'no earlier demo made it' out
