# SPDX-License-Identifier: Apache-2.0
# jobctl submit with resources.ranks: a rank is killed in the middle, the agent starts all of them
# again and the run ends where one rank would end; events name the one that died.
. "$TOP/tests/e2e/expect.sh"

cat >"$WORK/icons.yaml" <<YAML
name: icons
resources: {ranks: 2, gpus: 0}
train:
  model: {preset: tiny}
  data: {path: $TOP/templates/data/tango-icons}
  batch: {global: 5}
  steps: 400
  sample: {after: false}
checkpoint: {every: 20 steps}
retry: {backoff: 0.05s..0.1s}
YAML

jobctl submit -q "$WORK/icons.yaml"
await '"kind":"checkpoint"' >/dev/null
victim=$(await '"kind":"rank_started".*"rank":1' | field pid)
kill -9 "$victim"
jobctl wait 1 --timeout 120
jobctl events 1
ended=$(await '"kind":"generation_ended".*"generation":1')
grep -q '"cause":"rank_crash"' <<<"$ended"
grep -q '"rank":1' <<<"$ended"
[ "$(jobctl-agent flight "$JOBCTL_HOME/jobs/1/1/rank1.flight" | sed -n 's/^step \([0-9]*\) of.*/\1/p')" = 400 ]

# The same with one rank, in one go.
sed 's/ranks: 2/ranks: 1/' "$WORK/icons.yaml" >"$WORK/one.yaml"
jobctl submit -q "$WORK/one.yaml" --wait
last() { tail -n 1 "$JOBCTL_HOME/jobs/$1/checkpoints/metrics.jsonl" | sed 's/.*"loss":\([^,]*\).*/\1/'; }
echo "losses: two ranks $(last 1), one $(last 2)"
awk -v a="$(last 1)" -v b="$(last 2)" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(d < 1e-3 * b) }'
