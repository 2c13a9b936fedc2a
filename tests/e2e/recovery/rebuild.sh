# SPDX-License-Identifier: Apache-2.0
# One of three ranks is killed, twice: the other two detach from it, wait, and continue in their existing processes,
# together with a new one; the run ends with the bits of an undisturbed run. A rank that gets a stop while it waits
# stops.
. "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/events.sh"

cat >"$WORK/job.yaml" <<YAML
resources: {ranks: 3, gpus: 0}
env: {OMP_NUM_THREADS: "1"}
train:
  model: {preset: tiny}
  data: {path: $TOP/templates/data/tango-icons, caption_words: 4, caption_channels: 32}
  batch: {global: 6, micro: 2}
  steps: 400
  reproducible: true
  sample: {after: false}
checkpoint: {every: 1000000 steps}
retry: {backoff: 0.05s..0.1s}
YAML
digest() { sha256sum <"$(echo "$JOBCTL_HOME/jobs/$1/checkpoints"/step-*/model.safetensors)"; }
pids() { wait_event "$1" kind=generation_started generation=$2 | field pids; }

jobctl submit -q "$WORK/job.yaml" --wait
jobctl submit -q "$WORK/job.yaml"
until_step 2 20 1
kill -9 "$(rank_pid 2 1)"
until_step 2 20 2
kill -9 "$(rank_pid 2 0)"
read -r a b c <<<"$(pids 2 1)"
read -r a2 b2 c2 <<<"$(pids 2 2)"
[ "$a $c" = "$a2 $c2" ]
[ "$b" != "$b2" ]
read -r a3 b3 c3 <<<"$(pids 2 3)"
[ "$b2 $c" = "$b3 $c3" ]
[ "$a" != "$a3" ]
jobctl wait 2
[ "$(digest 1)" = "$(digest 2)" ]
jobctl logs --events 2 | grep 'with 3 ranks, 2 kept in their processes'
[ "$(jobctl logs --events 2 | grep -c 'rank . exited with 74')" = 0 ]
jobctl logs 2 --rank 2 | grep -- '--- generation 3, from memory of step'

# The same with full sharding: each rank had but a part of the state.
jobctl submit -q "$WORK/job.yaml" --set train.parallel=fsdp --set train.steps=200
until_step 3 20 1
kill -9 "$(rank_pid 3 2)"
read -r a b c <<<"$(pids 3 1)"
read -r a2 b2 c2 <<<"$(pids 3 2)"
[ "$a $b" = "$a2 $b2" ]
jobctl wait 3

# A stop that comes with the death.
jobctl submit -q "$WORK/job.yaml" --set train.steps=1000000
read -r a b c <<<"$(pids 4 1)"
until_step 4 20 1
kill -9 "$b"
jobctl cancel -q 4
jobctl wait 4 || [ $? = 3 ]
for p in $a $b $c; do ! kill -0 "$p" 2>/dev/null; done
