# SPDX-License-Identifier: Apache-2.0
# The batch system will end this node's share in about a minute: a checkpoint is written before that, and ranks find the
# time in JOBCTL_DEADLINE. The agent is killed, and the next attempt has another environment: jobctl show prints each
# attempt's plan and what changed.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
export SLURM_JOB_ID=5 SLURM_JOB_END_TIME=$(($(date +%s) + 64)) NCCL_P2P_LEVEL=NVL
mkdir "$WORK/lib"
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o "$WORK/lib/libnvidia-ml.so.1" "$TOP/tests/fake/nvml.c"
cp "$TOP/tests/facts/a100-pcie.machine" machine
export LD_LIBRARY_PATH=$WORK/lib FAKE_NVML=$WORK/machine
cp -r "$TOP/templates/data" data
cat >icons.yaml <<'YAML'
name: icons
resources: {gpus: 0, cpus: 1}
train:
  model: {preset: icons, depth: 1}
  data: {path: data/tango-icons}
  batch: {global: 2}
  steps: 1000000
  sample: {after: false}
checkpoint: {every: 1000000 steps}
YAML
code 0 jobctl plan icons.yaml
has 'each, one every 1000000 steps, 3 kept' out
jobctl submit -q icons.yaml
wait_event 1 kind=deadline | field text
wait_event 1 kind=checkpoint | field step
rank=$(wait_event 1 kind=rank_started | field pid)
tr '\0' '\n' <"/proc/$rank/environ" | grep -x "JOBCTL_DEADLINE=$SLURM_JOB_END_TIME"
code 0 jobctl logs --events 1
has 'planned: 1 rank, on the CPU one rank uses all cores' out
grep 'this machine ends in [56].* s: requesting a checkpoint' out

# Another attempt, on a machine whose GPUs are gone.
sed -i '/^gpu/d; /^path/d' machine
kill -KILL "$(wait_event 1 kind=agent_up | field pid)"
wait_event 1 kind=plan attempt=2 >/dev/null
code 0 jobctl show 1 --json
python3 - "$WORK/out" <<'END'
import json, sys
first, second = json.load(open(sys.argv[1]))['attempts'][:2]
assert first['plan']['changes'] == [], first
assert len(first['plan']['hash']) == 16 and first['plan']['hash'] != second['plan']['hash'], second
assert 'CUDA_VISIBLE_DEVICES is no longer set' in second['plan']['changes'], second
END
code 0 jobctl show 1
has 'changed since the last attempt: CUDA_VISIBLE_DEVICES is no longer set' out
jobctl cancel 1
jobctl wait 1 || [ $? = 3 ]
