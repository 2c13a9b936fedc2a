# SPDX-License-Identifier: Apache-2.0
# Every second of every rank is in one goodput bucket: queued, held, starting, training, killed, repeated. The buckets
# sum to ranks x time, in the API and in the store, and a restart of the daemon changes nothing.
. "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/events.sh"
cat >"$WORK/icons.yaml" <<YAML
name: icons
resources: {ranks: 2}
train:
  model: {preset: tiny}
  data: {path: $TOP/templates/data/tango-icons}
  batch: {global: 4}
  steps: 100000
  sample: {after: false}
checkpoint: {every: 100 steps}
YAML
jobctl submit -q --hold "$WORK/icons.yaml"
sleep 0.4 # how long it is held
jobctl hold --off 1
wait_event 1 kind=checkpoint >/dev/null
kill -9 "$(wait_event 1 kind=generation_started | field pids.0)"
wait_event 1 kind=rank_started generation=2 >/dev/null
wait_event 1 kind=checkpoint generation=2 >/dev/null
jobctl cancel 1
jobctl wait 1 || [ $? = 3 ]
goodput() { jobctl show 1 --json >"$WORK/out"; }
goodput
json 'abs(sum(v for k, v in o["goodput"].items() if k != "rank_s") - o["goodput"]["rank_s"]) < 1e-6'
json 'len(o["goodput"]) == 11 and o["goodput"]["paused"] >= 2 * 0.39'
json 'all(o["goodput"][k] > 0 for k in "productive replayed init checkpoint restart".split())'
json 'abs(o["job"]["goodput"] - o["goodput"]["productive"] / (o["goodput"]["rank_s"] - o["goodput"]["queued"] - o["goodput"]["paused"])) < 1e-3'
python3 - "$WORK/out" <<'PY'
import json, sys
from datetime import datetime
o = json.load(open(sys.argv[1]))
at = lambda k: datetime.fromisoformat(o["job"][k].replace("Z", "+00:00")).timestamp()
wall = at("ended_at") - at("submitted_at")
print("goodput:", o["goodput"], "wall", wall)
assert abs(o["goodput"]["rank_s"] - 2 * wall) < 0.05, (o["goodput"]["rank_s"], wall)
PY
cp "$WORK/out" "$WORK/before"
kill -9 "$(daemon_pid)"
goodput
python3 -c "import json; a, b = (json.load(open('$WORK/' + f))['goodput'] for f in ('before', 'out')); assert a == b, (a, b)"
jobctl show 1 >"$WORK/out"
has "productive" out
