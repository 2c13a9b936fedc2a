# SPDX-License-Identifier: Apache-2.0
# Two GPUs whose driver permits copies over PCIe, and a program that hangs before its first step unless NCCL avoids
# them: the next start adds the variable from the plan, with the reason, and a later attempt starts with it. The report
# of the hang includes NCCL's own status and the GPUs.
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
. "$TOP/tests/e2e/events.sh"
export FAKE_NVML=$WORK/gpus LD_LIBRARY_PATH=$WORK/lib
mkdir "$WORK/lib"
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o "$WORK/lib/libnvidia-ml.so.1" "$TOP/tests/fake/nvml.c"
cat >"$FAKE_NVML" <<'END'
driver 580.95.05
cuda 13000
gpu GPU-00100010-0000-4000-8000-000000000000 00000000:10:00.0 24564 8.9 NVIDIA GeForce RTX 4090
gpu GPU-00180018-0000-4000-8000-000000000001 00000000:18:00.0 24564 8.9 NVIDIA GeForce RTX 4090
path * * 20
END
cp "$TOP/templates/jobctl_progress.py" "$WORK"
cat >"$WORK/train.py" <<'PY'
import os, socket, threading, time
from jobctl_progress import enter

def ras():                                   # as NCCL answers, on the port that is this job's own
    host, port = os.environ["NCCL_RAS_ADDR"].rsplit(":", 1)
    server = socket.create_server((host, int(port)))
    while True:
        asks, _ = server.accept()
        if b"VERBOSE STATUS" in asks.recv(4096):
            asks.sendall(b"Communicators: rank 1 is missing in job " + os.environ["JOBCTL_JOB_ID"].encode())
        asks.close()

if os.environ["RANK"] == "0":
    threading.Thread(target=ras, daemon=True).start()
enter(0, "init")
while os.environ.get("NCCL_P2P_DISABLE") != "1":
    time.sleep(0.1)
for step in range(3):
    enter(step)
    time.sleep(0.02)
print("P2P is off in attempt", os.environ["JOBCTL_ATTEMPT"])
if os.environ["JOBCTL_ATTEMPT"] == "1":     # until somebody ends the agent
    while True:
        enter(step)
        time.sleep(0.05)
        step += 1
PY
cat >"$WORK/job.yaml" <<YAML
name: pipeline
run: exec python3 train.py
workdir: $WORK
hang: {first_step: 2s}
YAML
jobctl plan "$WORK/job.yaml" >"$WORK/plan"
grep -q 'fallbacks, added one per restart after a hang before the first step' "$WORK/plan" || { cat "$WORK/plan"; exit 1; }
jobctl submit -q "$WORK/job.yaml"
hang=$(wait_event 1 kind=hang)
[ "$(echo "$hang" | field cause)" = hang_init ]
wait_event 1 kind=restart_scheduled | tee "$WORK/again" | field text
grep -q 'the next start sets NCCL_P2P_DISABLE=1: copies between GPUs over PCIe can hang' "$WORK/again"
jobctl logs --events 1 | grep 'restarting now as generation 2: the next start sets NCCL_P2P_DISABLE=1'
report="$JOBCTL_HOME/jobs/1/1/incident-1.txt"
for want in "NCCL RAS status:" 'rank 1 is missing in job 1' '^GPUs:' 'GPU-00180018'; do
    grep -q "$want" "$report" || { echo "no '$want' in:"; cat "$report"; exit 1; }
done
wait_for "the rank goes on without P2P" says 'P2P is off in attempt 1' jobctl logs 1 --rank 0

# What helped is set from the start in the attempt after this one: it has no hang of its own.
kill -9 "$(wait_event 1 kind=agent_up | field pid)"
jobctl wait 1 --timeout 60
jobctl logs 1 | grep -q 'P2P is off in attempt 2'
[ "$(jobctl logs --events 1 | grep -c ' hang: ')" = 1 ]
