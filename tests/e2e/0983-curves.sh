# SPDX-License-Identifier: Apache-2.0
# jobctl metrics: the curves of a training as CSV and JSON lines are those of the API, a row per step.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
printf 'name: curve\nrun: %s\nresources: {gpus: 0}\n' "sh -c 'for i in 1 2 3; do echo \"step \$i/3 loss 0.\$i\"; sleep 1.1; done'" >c.yaml
code 0 jobctl submit -q --wait c.yaml
code 0 jobctl metrics 1
cp out c.csv
[ "$(head -n 1 c.csv)" = "step,loss,grad_norm,lr,samples_per_s,step_ms" ]
grep -q '^3,0.3,,,,' c.csv
code 0 jobctl metrics curve --format jsonl
python3 - c.csv out <<'PY'
import csv, json, sys

table = list(csv.DictReader(open(sys.argv[1])))
lines = [json.loads(line) for line in open(sys.argv[2])]
assert len(table) >= 2 and [int(r["step"]) for r in table] == [r["step"] for r in lines]
assert all({k: float(v) for k, v in a.items() if v} == b for a, b in zip(table, lines)), (table, lines)
PY
code 0 jobctl metrics 1 --json
json "len(o['rows']) >= 2 and o['rows'][-1]['loss'] == 0.3"
code 2 jobctl metrics 1 --format xml
has '--format: "xml" is not one of csv and jsonl' err
code 0 jobctl submit -q --hold c.yaml
code 3 jobctl metrics 2
has 'job 2 has no curves: no step was reported yet' err
