# SPDX-License-Identifier: Apache-2.0
# Data is encoded on two nodes: the same bytes as on one; a node whose agent and ranks are killed loses at most one
# file, and the next attempt continues from the existing ones, to the same bytes.
. "$TOP/tests/e2e/events.sh"
. "$TOP/tests/e2e/encoders.sh"
cd "$WORK"
make_pipe pipe
take_pictures pics 24

job() { # NAME NODES RANKS
    cat >"$1.yaml" <<YAML
name: $1
env: {OMP_NUM_THREADS: 1}
resources: {gpus: 0, nodes: $2, ranks: $3, cpus: 1}
train:
  model: {preset: tiny}
  data: {path: pics, encoders: sana, vae: pipe, text_encoder: pipe, resolution: 192, text_rows: 16, cache_shard: 2,
         cache: $1.cache}
  batch: {global: 4}
  steps: 2
retry: {max: 5, backoff: 0.05s..0.1s}
YAML
    jobctl submit -q "$1.yaml"
}
files() { find "$1.cache" -path "*/$2-*/*.safetensors" 2>/dev/null | wc -l; }
some() { [ "$(files "$1" latents)" -ge 2 ]; }
fail() { jobctl logs --events "$1"; tail "$JOBCTL_HOME/jobs/$1"/*/*.log; exit 1; }
same() {
    shards one.cache >one.sums
    shards "$1.cache" >"$1.sums"
    diff one.sums "$1.sums" || { echo "$1: other bytes"; exit 1; }
}

job one 1 1
jobctl wait 1 || fail 1
[ "$(files one latents)" = 12 ] && [ "$(files one text)" = 13 ]

# Two nodes with two ranks each, all of which have a share.
job nodes 2 2
jobctl wait 2 || fail 2
[ "$(events_of 2 kind=agent_up | wc -l)" -ge 1 ]
same nodes
for rank in 0 1 2 3; do jobctl logs 2 --rank $rank >rank$rank; done
grep -q 'data: 24 pictures and 25 captions in ' rank0 || { cat rank0; exit 1; }

# The second node is killed, ranks and all.
job killed 2 2
wait_for "some files of latents" some killed
attempt=$(ls -d "$JOBCTL_HOME/jobs/3/"[0-9]* | wc -l)
agent=$(agent_pid 3 "$attempt" node1)
ranks=$(cat "/proc/$agent/task/"*/children)
kept=$(files killed latents)
kill -KILL $agent $ranks
jobctl wait 3 || fail 3
same killed
[ "$kept" -ge 2 ] && [ "$kept" -lt 12 ]
events_of 3 kind=encoding text >told
[ "$(grep -c 'are to be encoded' told)" -ge 2 ] || { cat told; exit 1; }
[ "$(grep 'are to be encoded' told | grep -c '24 of 24 pictures')" = 1 ] || { cat told; exit 1; }
[ "$(last_event 3 kind=encoding over)" = true ]
[ -z "$(find killed.cache -name '.tmp-*')" ]
