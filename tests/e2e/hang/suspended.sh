# SPDX-License-Identifier: Apache-2.0
# A machine suspended for longer than hang.silent is not a hang: agent, guardian and ranks stop and resume together.
# Neither is a silent download. A real hang is shown by py-spy, if it is in PATH.
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
. "$TOP/tests/e2e/expect.sh"
mkdir "$WORK/bin"
cat >"$WORK/bin/py-spy" <<'SPY'
#!/bin/sh
echo "py-spy was asked: $*"
SPY
chmod +x "$WORK/bin/py-spy"
PATH=$WORK/bin:$PATH

cat >"$WORK/sleeps.py" <<'PY'
import os, time
print("suspend me", flush=True)
while not os.path.exists("resumed"):
    time.sleep(0.01)
time.sleep(1.5)         # the agent has looked at it since
PY
cat >"$WORK/downloads.py" <<'PY'
import os, time
if os.environ["JOBCTL_GENERATION"] != "1":
    raise SystemExit(0)
end = time.monotonic() + 4.5
with open("/dev/zero", "rb") as source, open("downloaded", "wb") as target:
    while time.monotonic() < end:
        target.seek(0)
        target.write(source.read(1 << 20))
        time.sleep(0.02)
print("downloaded", flush=True)
time.sleep(100000)
PY
for name in sleeps downloads; do
    printf 'name: %s\nrun: python3 %s.py\nworkdir: %s\nhang: {silent: 3s}\n' $name $name "$WORK" >"$WORK/$name.yaml"
    jobctl submit -q "$WORK/$name.yaml"
done

wait_for "it to be at work" says "suspend me" jobctl logs 1
agent=$(agent_pid 1 1)
guardian=$(sed -n 's/^PPid:\t//p' "/proc/$agent/status")
pids="$guardian $agent $(wait_event 1 kind=generation_started | field pids)"
# shellcheck disable=SC2086
kill -STOP $pids
start=$SECONDS
later() { [ $((SECONDS - start)) -ge 4 ]; }
wait_for "longer than the limit" later
touch "$WORK/resumed"
# shellcheck disable=SC2086
kill -CONT $pids
jobctl wait 1
[ "$(events_of 1 kind=hang | wc -l)" = 0 ]

wait_for "the end of the download" says downloaded jobctl logs 2
wait_event 2 kind=hang | field text | grep 'has shown a sign of life'
jobctl wait 2
grep "py-spy was asked: dump --pid [0-9]" "$JOBCTL_HOME/jobs/2/1/incident-1.txt"
[ "$(events_of 2 kind=hang | wc -l)" = 1 ]
