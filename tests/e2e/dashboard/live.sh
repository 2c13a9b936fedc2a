# SPDX-License-Identifier: Apache-2.0
# The streams of server-sent events: a stream sends rows as they change, and the events of a job with their seq; with
# Last-Event-ID it sends what was missed, also by a new daemon; a client too far behind is told to reload.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
cat >job.yaml <<'YAML'
name: "quick \"<b>\u2028"
run: |
  echo "step 1/100 loss 0.5"; exec sleep 600
resources: {gpus: 0}
grace: 0s
YAML
sed -i 's/^name:.*/name: first/' job.yaml
cat >read.py <<'PY'
import json, sys
# messages of a stream: {id, event, data}
def messages(path):
    text = open(path, encoding="utf-8").read()
    for part in text.split("\n\n")[:-1]:
        m = dict(line.split(": ", 1) for line in part.split("\n") if not line.startswith(":"))
        if m:
            yield m.get("id"), m["event"], json.loads(m["data"])
found = list(messages(sys.argv[1]))
sys.exit(0 if eval(sys.argv[2], {"m": found, "rows": [d for _, e, d in found if e == "job"],
                                 "kinds": [d["kind"] for _, e, d in found if e == "event"]}) else 1)
PY
sse() { python3 -IS read.py "$@"; }
streams=()
# stream FILE ARGUMENTS...: in the background, until the end of the test
stream() {
    local file=$1
    shift
    curl -sS -N --unix-socket "$JOBCTL_HOME/jobctl.sock" "$@" >"$file" 2>>curl.err &
    streams+=($!)
}
trap 'kill "${streams[@]}" 2>/dev/null || true; wait "${streams[@]}" || true' EXIT

code 0 jobctl submit -q --hold --set name=idle job.yaml
stream all -D head http://jobctl/v1/live
wait_for "the place in the stream" sse all "m[0][1] == 'reset'"
grep -i '^Content-Type: text/event-stream' head
code 0 jobctl submit -q job.yaml
wait_for "a running job in the stream" sse all "any(r['id'] == 2 and r['state'] == 'running' for r in rows)"
wait_for "its step, which is no event" sse all "any(r['id'] == 2 and r['step'] == 1 for r in rows)"
# The numbers of a job that waits do not change, so nothing is sent.
sse all "not any(r['id'] == 1 for r in rows)"

begin=$SECONDS
stream one http://jobctl/v1/jobs/2/live
wait_for "all events" sse one "'submitted' in kinds and 'generation_started' in kinds"
sse one "[int(i) for i, e, d in m if e == 'event'] == list(range(1, len(kinds) + 1)) and rows[0]['id'] == 2"

# Its numbers are sent once a second, not whenever there is room for them.
wait_for "five rows" sse one "len(rows) >= 5"
sse one "len(rows) <= 4 + 2 * ($SECONDS - $begin + 1)"

# What was missed, and nothing twice.
stream later -H 'Last-Event-ID: 2' http://jobctl/v1/jobs/2/live
wait_for "the events after the second" sse later "'generation_started' in kinds"
sse later "'submitted' not in kinds and [i for i, e, d in m if e == 'event'][0] == '3'"
place=$(tac all | grep -m 1 '^id: ' | cut -c 5-)
code 0 jobctl cancel 2
code 3 jobctl wait 2
wait_for "the end of the job" sse all "any(r['id'] == 2 and r['result'] == 'cancelled' for r in rows)"
stream missed -H "Last-Event-ID: $place" http://jobctl/v1/live
wait_for "the end, after it" sse missed "any(r['id'] == 2 and r['result'] == 'cancelled' for r in rows)"
sse missed "m[-1][1] == 'at' and not any(e == 'reset' for i, e, d in m) and not any(r['id'] == 1 and 'held' not in r['reason'] for r in rows)"
code 0 jobctl remove 2
wait_for "that it is gone" sse all "('gone', 2) in [(e, d.get('id')) for i, e, d in m]"

# A new daemon does not know the place of the list, and says so; the events of a job go on.
code 0 jobctl submit -q job.yaml
wait_for "job 3 runs" job_is 3 state running
wait_for "the stream of job 2" sse one "rows[-1]['result'] == 'cancelled'"
code 0 jobctl daemon restart
wait_for "the end of the stream with its daemon" ended "${streams[@]}"
stream again -H "Last-Event-ID: $place" http://jobctl/v1/live
wait_for "the sentence to read again" sse again "m[0][1] == 'reset'"
stream after -H 'Last-Event-ID: 1' http://jobctl/v1/jobs/3/live
wait_for "the events after the first" sse after "kinds and 'submitted' not in kinds"
code 0 jobctl cancel 1 3
