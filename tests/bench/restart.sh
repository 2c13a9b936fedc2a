#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# restart.sh BIN - how soon a rank's death is detected, and how soon the next generation runs
#
# A rank reports a checkpoint and kills itself, KILLS (11) times; the times are those of the events.  Exit 1
# if a target is missed.
set -euo pipefail
BIN=$(cd "$1" && pwd)
TOP=$(cd "$(dirname "$0")/../.." && pwd)
WORK=$(mktemp -d "${TMPDIR:-/tmp}/jobctl-bench.XXXXXX")
kills=${KILLS:-11}
export HOME=$WORK JOBCTL_HOME=$WORK/state PATH=$BIN:$PATH
over() {
    env -u JOBCTL_HOME "$TOP/tests/e2e/leftover.sh" "$WORK"
    rm -rf "$WORK"
}
trap over EXIT
cd "$WORK"
cat >dies.yaml <<'YAML'
resources: {ranks: 1, gpus: 0, cpus: 1}
env: {KILLS: "0"}
run: |
  echo "{\"ev\":\"checkpoint\",\"step\":$JOBCTL_GENERATION,\"path\":\"x\"}" >&$JOBCTL_EVENT_FD
  [ $JOBCTL_GENERATION -gt $KILLS ] || kill -KILL $$
retry: {max: 1000, no_progress: 1000, backoff: 10ms..20ms}
YAML
echo "$(date -u +'%Y-%m-%d %H:%M UTC'), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg)"
jobctl submit -q dies.yaml --set env.KILLS="$kills" --wait >/dev/null || { jobctl logs --events last; exit 1; }
jobctl logs --events last --json >events
python3 - events "$kills" <<'PY'
import json, statistics, sys
from datetime import datetime
def at(event): return datetime.fromisoformat(event["at"].replace("Z", "+00:00")).timestamp() * 1000
seen = {}
for e in json.load(open(sys.argv[1]))["events"]:
    seen.setdefault((e["kind"], (e["body"] or {}).get("generation")), at(e))
rows = range(1, int(sys.argv[2]) + 1)
noticed = [seen["generation_ended", g] - seen["checkpoint", g] for g in rows]
back = [seen["generation_started", g + 1] - seen["checkpoint", g] for g in rows]
missed = 0
for what, times, limit in (("noticed", noticed, 50), ("the next generation runs", back, 500)):
    median = statistics.median(times)
    word = "reached" if median < limit else "missed"
    missed |= word == "missed"
    print(f"{what} after {median:.0f} ms in the median, {max(times):.0f} ms at most (target < {limit} ms: {word})")
sys.exit(missed)
PY
