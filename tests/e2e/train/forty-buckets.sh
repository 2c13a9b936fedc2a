# SPDX-License-Identifier: Apache-2.0
# A known failure of multi-scale training: forty buckets of uneven sizes, some smaller than a batch, several ranks,
# several epochs. No rank runs out of data first: every sample appears once per epoch, the losses are those of one rank,
# and no rank waits for one that has ended.
python3 - "$WORK/data.safetensors" <<'PY'
import json, random, struct, sys
random.seed(4)
units = [(8, 32), (8, 31), (8, 30), (8, 29), (9, 28), (9, 27), (9, 26), (10, 25), (10, 24), (11, 23),
         (11, 22), (11, 21), (12, 21), (12, 20), (13, 19), (13, 18), (14, 18), (14, 17), (15, 17), (15, 16)]
shapes = units + [(16, 16)] + [(w, h) for h, w in reversed(units)]
del shapes[29] # the table has no 21 x 11
header, body, total = {}, bytearray(), 0
def put(name, shape, numbers):
    begin = len(body)
    body.extend(struct.pack(f'<{len(numbers)}f', *numbers))
    header[name] = {'dtype': 'F32', 'shape': shape, 'data_offsets': [begin, len(body)]}
for g, (h, w) in enumerate(shapes):
    n = random.randint(1, 23)
    total += n
    tail = f'.{g}' if g else ''
    put('latent' + tail, [n, 2, h, w], [random.uniform(-1, 1) for _ in range(n * 2 * h * w)])
    put('caption' + tail, [n, 2, 4], [random.uniform(-1, 1) for _ in range(n * 8)])
    put('mask' + tail, [n, 2], [1, 0] * n)
text = json.dumps(header).encode()
open(sys.argv[1], 'wb').write(struct.pack('<Q', len(text)) + text + body)
print(len(shapes), 'buckets,', total, 'samples')
PY
spec() { # DIR RESOLUTION
    cat >"$1.json" <<JSON
{"schema":1,"train":{"model":{"preset":"tiny","depth":1,"hidden":16,"heads":1,"linear_head_dim":16},
 "data":{"path":"$WORK/data.safetensors","encoders":"features","multi_scale":true,
 "sample_log":true,"resolution":${2:-512}},"batch":{"global":16,"micro":3},"steps":110,"seed":9},
 "checkpoint":{"every":{"steps":50},"keep":9,"dir":"$1"},"hang":{"step":10,"first_step":60}}
JSON
}
run() { # N DIR
    spec "$2"
    pids=
    for r in $(seq 0 $(($1 - 1))); do
        RANK=$r WORLD_SIZE=$1 JOBCTL_RUN_DIR="$WORK" OMP_NUM_THREADS=1 \
            jobctl-train train --spec "$2.json" >"$2.$r.out" 2>&1 &
        pids="$pids $!"
    done
    for p in $pids; do wait "$p" || { cat "$2".*.out; exit 1; }; done
    jobctl-train verify-data --spec "$2.json" --dir "$2" | tee "$2.verdict"
    grep -q 'sample log  steps 1 to 110, 1760 samples, 3.86 epochs: each exactly once an epoch' "$2.verdict"
}
spec "$WORK/plan"
jobctl-train plan --spec "$WORK/plan.json" | tee "$WORK/plan.txt"
[ "$(grep -Ec '^ +[0-9]+x[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+$' "$WORK/plan.txt")" = 40 ]
grep -q 'warning     bucket .* for a batch of 16: a batch takes up to' "$WORK/plan.txt"
for n in 1 2 4 7; do
    run $n "$WORK/of$n"
    paste -d' ' "$WORK/of1/metrics.jsonl" "$WORK/of$n/metrics.jsonl" |
        sed 's/[^0-9.e+-]*"[a-z_]*":/ /g; s/[{}]//g' | awk '
        { n++; d = $2 - $7; if (d < 0) d = -d; if ($1 != $6 || d > 1e-4 * $2) bad = bad " " $1 }
        END { if (n != 110 || bad != "") { print n " lines, far at" bad; exit 1 } }'
done

# A resolution that these latents are not of.
spec "$WORK/other" 500
rc=0
jobctl-train train --spec "$WORK/other.json" 2>"$WORK/other.err" || rc=$?
[ $rc = 64 ]
grep -q 'train.data.resolution: pictures of resolution 500 have no latents of 16 x 16' "$WORK/other.err"
