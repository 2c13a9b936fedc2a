# SPDX-License-Identifier: Apache-2.0
# jobctl drill on a copy of a job: every fault is detected, the copy is back at its next step, and the job itself is
# never touched. A recovery that takes too long fails the drill.
. "$TOP/tests/e2e/expect.sh"
cat >"$WORK/icons.yaml" <<YAML
name: icons
resources: {ranks: 2, cpus: 1}
train:
  model: {preset: tiny}
  data: {path: $TOP/templates/data/tango-icons}
  batch: {global: 4}
  steps: 400
  sample: {after: false}
checkpoint: {every: 200 steps}
YAML
code 0 jobctl submit -q --hold "$WORK/icons.yaml"
code 0 jobctl drill 1 --json
cat "$WORK/out"
json 'o["job"] == 2 and len(o["faults"]) == 8'
json 'all(f["result"] == "pass" for f in o["faults"])'
json 'all(f["back_s"] < 20 for f in o["faults"])'
json '[f["steps_lost"] for f in o["faults"] if f["fault"] == "sigterm"] == [0]'
json 'all(f["noticed_s"] < 2 for f in o["faults"] if f["fault"] in ("kill-rank", "kill-agent"))'
code 0 jobctl status -a --json
json '[(j["name"], j["state"], j["result"]) for j in o["jobs"]] == [("icons-drill", "done", "cancelled"), ("icons", "pending", None)]'

# Nobody restarts this one, so it cannot be back.
code 1 jobctl drill "$WORK/icons.yaml" --only kill-rank --set retry.max=0 --limit 5s
has "FAIL" out
has "the job ended: rank 1 was killed by SIGKILL" out
code 2 jobctl drill "$WORK/icons.yaml" --only kill-rank,earthquake
has "unknown fault 'earthquake'" err
