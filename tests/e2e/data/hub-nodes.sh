# SPDX-License-Identifier: Apache-2.0
# The models of a job of two nodes with one cache are downloaded once; status shows the progress; a killed download
# resumes in the next try; a stop ends it at once.
. "$TOP/tests/e2e/hub.sh"
cd "$WORK"
cp -r "$TOP/templates/data/tango-icons" data
spec() { # NAME MODEL-MEMBERS
    cat >"$1.yaml" <<YAML
name: $1
resources: {gpus: 0, cpus: 1, ranks: 1}
train: {model: {preset: tiny$2}, data: {path: data, caption_words: 4}, batch: {global: 4}, steps: 2,
        sample: {after: false}}
checkpoint: {every: 100 steps, dir: $WORK/of-$1}
retry: {max: 2, backoff: 1s..2s}
YAML
}
spec native ""
jobctl submit -q --wait native.yaml
mkdir tiny
cp of-native/step-00000002/model.safetensors tiny/
commit=$(add me/tiny tiny)
blob=$(cache me/tiny)/blobs/$(sha256sum <tiny/model.safetensors | cut -d' ' -f1)
written() { [ "$(stat -c %s "$blob.incomplete" 2>/dev/null || echo 0)" = "$1" ]; }

# Stopped in the middle: at once, and what is there stays.
faults '"stall":500000'
spec both ', weights: "hf://me/tiny"'
job=$(jobctl submit -q both.yaml --set name=stopped)
wait_for "half of it is there" written 500000
wait_for "status tells what it waits for" says "downloading its models to " jobctl status
code 0 jobctl cancel "$job"
wait_for "it ends" job_is "$job" result cancelled
written 500000

# On two nodes, killed in the middle: the rest comes in the next try, to one node, and both have it.
forget
faults '"stall":600000'
job=$(jobctl submit -q both.yaml --set resources.nodes=2)
wait_event "$job" kind=fetch_started >/dev/null
wait_for "a node downloads" written 600000
wait_for "the other one waits" says 'another process that is downloading model.safetensors' \
    cat "$JOBCTL_HOME/jobs/$job/1/setup.log" "$JOBCTL_HOME/jobs/$job/1/node1/setup.node1.log"
kill -9 $(pgrep -f "^$BIN/jobctl-fetch .*$JOBCTL_HOME/jobs/$job/") || : # the agent ends the second when the first is dead
faults
touch "$hub/go"
jobctl wait "$job" || { jobctl logs --events "$job"; exit 1; }
[ "$(events_of "$job" kind=fetch_started kind | wc -l)" = 2 ]
[ "$(asked store 'bytes=600000-')" -ge 1 ]
[ "$(grep -c '"range": null' "$hub/log")" -ge 1 ] # the list
cmp "$blob" tiny/model.safetensors
jobctl logs "$job" >out
has "from $(cache me/tiny)/snapshots/$commit/model.safetensors" out
cat "$JOBCTL_HOME/jobs/$job/1/setup.log" "$JOBCTL_HOME/jobs/$job/1/node1/setup.node1.log" >out # either node
has 'continuing after 600000 of ' out
