# SPDX-License-Identifier: Apache-2.0
# jobctl show --metrics: the curves of a training as CSV and JSON equal those of the API, a row per step.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
printf 'name: curve\nrun: %s\nresources: {gpus: 0}\n' "sh -c 'for i in 1 2 3; do echo \"step \$i/3 loss 0.\$i\"; sleep 1.1; done'" >c.yaml
code 0 jobctl submit -q --wait c.yaml
code 0 jobctl show 1 --metrics
cp out c.csv
[ "$(head -n 1 c.csv)" = "step,loss,grad_norm,lr,samples_per_s,step_ms,data_ms,forward_ms,backward_ms,reduce_ms,optimizer_ms" ]
grep -q '^3,0.3,,,,.*,,,,,$' c.csv
code 0 jobctl show curve --metrics --json
python3 - c.csv out <<'PY'
import csv, json, sys

table = list(csv.DictReader(open(sys.argv[1])))
lines = json.load(open(sys.argv[2]))["rows"]
assert len(table) >= 2 and [int(r["step"]) for r in table] == [r["step"] for r in lines]
assert all({k: float(v) for k, v in a.items() if v} == b for a, b in zip(table, lines)), (table, lines)
PY
json "len(o['rows']) >= 2 and o['rows'][-1]['loss'] == 0.3"
code 0 jobctl submit -q --hold c.yaml
code 3 jobctl show 2 --metrics
has 'job 2 has no curves: no step was reported yet, or they were lost with the store' err

# A job of the engine has phases.
cat >phases.yaml <<YAML
resources: {gpus: 0}
train:
  model: {preset: tiny, depth: 1}
  data: {path: $TOP/templates/data/tango-icons, dct_block: 16, caption_words: 4, caption_channels: 32}
  batch: {global: 2, micro: 1}
  steps: 4
  sample: {after: false}
YAML
code 0 jobctl submit -q --wait phases.yaml
code 0 jobctl show 3 --metrics
python3 - out <<'PY'
import csv, sys

row = list(csv.DictReader(open(sys.argv[1])))[-1]
phases = [float(row[p + "_ms"]) for p in ("data", "forward", "backward", "reduce", "optimizer")]
assert phases[1] > 0 and phases[2] > 0 and phases[4] > 0 and min(phases) >= 0, row
PY
