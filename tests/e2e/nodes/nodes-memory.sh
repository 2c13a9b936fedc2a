# SPDX-License-Identifier: Apache-2.0
# Ranks on two nodes, and no checkpoint for a long time: one rank of the second node is killed, and all resume from
# memory, the others in their processes; each node's agent has a part of the state, and the rest comes from the other
# node. A hanging rank costs no more; a copy torn on one node is not used on the other. In each case the weights have
# the bits of one rank.
. "$TOP/tests/e2e/events.sh"
cd "$WORK"
JOBCTL_NODE_LOST_S=5 jobctl daemon --detach

cat >two.yaml <<YAML
name: two
resources: {nodes: 2, ranks: 2, gpus: 0}
env: {OMP_NUM_THREADS: "1"}
train:
  model: {preset: tiny}
  data: {path: $TOP/templates/data/tango-icons, caption_words: 4, caption_channels: 32}
  batch: {global: 8, micro: 2}
  steps: 120
  optimizer: {lr: 1e-3}
  reproducible: true
  sample: {after: false}
checkpoint: {every: 1000000 steps}
retry: {backoff: 0.05s..0.1s}
hang: {step: 1h}
YAML
bits() { cat "$JOBCTL_HOME/jobs/$1"/checkpoints/step-00000120/{model,optimizer}.safetensors | sha256sum; }
pids() { wait_event "$1" kind=generation_started generation=$2 | field pids; }
run_dir() { [ "$2" -lt 2 ] && echo "$JOBCTL_HOME/jobs/$1/1" || echo "$JOBCTL_HOME/jobs/$1/1/node1"; }
# hold JOB RANK PID: the three others wait for it
hold() {
    local r pages=()
    for r in 0 1 2 3; do [ $r = "$2" ] || pages+=("$(run_dir "$1" $r)/rank$r.flight"); done
    held "$3" "${pages[@]}"
}
# went_on JOB GENERATION AT: from memory, a step before AT or later
went_on() {
    from=$(wait_event "$1" kind=generation_started generation=$2 | field resume_step)
    wait_event "$1" kind=rank_started generation=$2 rank=0 >/dev/null
    echo "job $1: held at step $3, generation $2 goes on from step $from"
    [ "$from" -ge $(($3 - 1)) ]
    wait_for "rank 0 says so" grep -q "resumed: step $from from memory" "$JOBCTL_HOME/jobs/$1/1/rank0.log"
    for r in 0 1 2 3; do
        wait_for "rank $r begins" grep -q -- "--- generation $2, from memory of step $from" "$(run_dir "$1" $r)/rank$r.log"
    done
}

jobctl submit -q two.yaml --set resources.nodes=1 --set resources.ranks=1 --wait

# All of the state is on each rank, and each keeps a quarter.
jobctl submit -q two.yaml --set env.TRAIN_TEST_STOP=1:3:20,2:2:60
read -r a b c d <<<"$(pids 2 1)"
hold 2 3 "$d"
kill -KILL "$d"
went_on 2 2 "$at"
read -r a2 b2 c2 d2 <<<"$(pids 2 2)"
[ "$a $b $c" = "$a2 $b2 $c2" ]
[ "$d" != "$d2" ]
for r in 0 2; do grep -q '^memory: .* MiB came from other nodes' "$(run_dir 2 $r)/rank$r.log"; done

# The newest copy of a rank on the first node is torn.
hold 2 2 "$c2"
file=$(find /proc/"$b2"/fd -lname '*jobctl-snapshot*' | sort -V | head -n 1)
word() { od -A n -t d8 -j "$1" -N 8 "$file" | tr -d ' '; }
read -r newest copy older _ < <(for i in 0 1 2; do echo "$(word $((56 + 32 * i))) $i"; done | sort -rn | xargs)
at_byte=$(($(word $((56 + 32 * copy + 24))) + 65536 + 4 * $(word $((4096 + 144))) + 3))
printf '\xa5' | dd of="$file" bs=1 seek="$at_byte" conv=notrunc status=none
kill -KILL "$c2"
wait_event 2 kind=rank_started generation=3 rank=0 >/dev/null
wait_for "rank 0 takes the older copy" grep -q "resumed: step $older from memory" "$JOBCTL_HOME/jobs/2/1/rank0.log"
[ "$older" -lt "$newest" ]
jobctl wait 2
[ "$(bits 1)" = "$(bits 2)" ]

# Each rank holds but its part, which is where it was: nothing has to travel.
jobctl submit -q two.yaml --set train.parallel=fsdp --set env.TRAIN_TEST_STOP=1:0:20
read -r a b c d <<<"$(pids 3 1)"
hold 3 0 "$a"
kill -KILL "$a"
went_on 3 2 "$at"
read -r a2 b2 c2 d2 <<<"$(pids 3 2)"
[ "$b $c $d" = "$b2 $c2 $d2" ]
! grep 'came from other nodes' "$JOBCTL_HOME"/jobs/3/1/rank0.log || exit 1
jobctl wait 3
[ "$(bits 1)" = "$(bits 3)" ]

# Nobody ends a rank that stands still but the watch for hangs.
jobctl submit -q two.yaml --set hang.step=3s --set env.TRAIN_TEST_STOP=1:2:20
wait_event 4 kind=hang 'text~rank 2 on node1 hangs'
went_on 4 2 20
jobctl wait 4
[ "$(bits 1)" = "$(bits 4)" ]
