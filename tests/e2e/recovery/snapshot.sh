# SPDX-License-Identifier: Apache-2.0
# One of four ranks is killed: the next generation resumes from memory, with at most one step lost, although the next
# checkpoint is far away. If one rank's copy is torn, it resumes from the previous copy; if both are, from the
# checkpoint. The run ends with the bits of an undisturbed one.
cat >"$WORK/icons.yaml" <<YAML
name: icons
resources: {ranks: 4, gpus: 0}
env: {OMP_NUM_THREADS: 1}
train:
  model: {preset: tiny}
  data: {path: $TOP/templates/data/tango-icons, caption_words: 4, caption_channels: 32}
  batch: {global: 8}
  steps: 100
  reproducible: true
  sample: {after: false}
checkpoint: {every: 1000000 steps}
retry: {backoff: 0.05s..0.1s}
hang: {step: 1h}
YAML

. "$TOP/tests/e2e/events.sh"

# started N RANK: the pid and first step of the rank in generation N
started() {
    wait_event 1 kind=rank_started generation=$1 rank=$2 >"$WORK/event"
    field pid resume_step <"$WORK/event"
}
pages() { for r in 0 2 3; do echo "$JOBCTL_HOME/jobs/1/1/rank$r.flight"; done; }
# memory PID: the memory file that the rank writes (its own is the first one)
memory() {
    for f in $(ls "/proc/$1/fd" | sort -n); do
        readlink "/proc/$1/fd/$f" | grep -q jobctl-snapshot && { echo "/proc/$1/fd/$f"; return; }
    done
}
word() { od -A n -t d8 -j "$2" -N 8 "$1" | tr -d ' '; } # FILE OFFSET
# tear FILE COPY: one byte of the numbers of its first row
tear() {
    offset=$(($(word "$1" $((56 + 32 * $2 + 24))) + 65536 + 4 * $(word "$1" $((4096 + 144))) + 3))
    printf '\xa5' | dd of="$1" bs=1 seek="$offset" conv=notrunc status=none
}

jobctl submit -q "$WORK/icons.yaml" --set env.TRAIN_TEST_STOP=1:1:20,2:1:40,3:1:60


# Killed.
set -- $(started 1 1)
[ "$2" = 0 ]
held "$1" $(pages)
kill -9 "$1"
set -- $(started 2 1)
echo "killed at step $at, on again from step $2"
[ "$2" -ge $((at - 1)) ]
wait_for "rank 0 says so" grep "resumed: step $2 from memory" "$JOBCTL_HOME/jobs/1/1/rank0.log"
jobctl logs --events 1 | grep -q "generation 2 resumes at step $2 with 4 ranks"

# The newest copy of rank 2 is torn.
held "$1" $(pages)
mine=$(memory "$(started 2 2 | cut -d' ' -f1)")
read -r one newest older _ < <(for copy in 0 1 2; do echo "$(word "$mine" $((56 + 32 * copy))) $copy"; done | sort -rn | xargs)
tear "$mine" "$newest"
kill -9 "$1"
set -- $(started 3 1)
echo "copies of steps $one and $older, the newer one torn; on again from step $2"
[ "$2" = "$older" ]

# Both are: only the checkpoint is left, here none. The curve is cut there, too.
held "$1" $(pages)
mine=$(memory "$(started 3 2 | cut -d' ' -f1)")
for copy in 0 1 2; do tear "$mine" $copy; done
kill -9 "$1"
set -- $(started 4 1)
echo "both torn; on again from step $2"
[ "$2" = 0 ]

jobctl wait 1 --timeout 120
jobctl show 1 | grep -c 'with 4 ranks'
jobctl submit -q "$WORK/icons.yaml" --wait
for f in model optimizer; do
    cmp "$JOBCTL_HOME"/jobs/[12]/checkpoints/step-00000100/$f.safetensors
done
