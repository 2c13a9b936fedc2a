# SPDX-License-Identifier: Apache-2.0
# Jobs whose data is encoded first: status, why and events show the progress; killed ranks resume where they were; the
# time counts as data; a second job waits for the first, names it, and encodes nothing again.
. "$TOP/tests/e2e/events.sh"
. "$TOP/tests/e2e/encoders.sh"
cd "$WORK"
make_pipe pipe
take_pictures pics 24

job() { # NAME RANKS DATA
    cat >"$1.yaml" <<YAML
name: $1
env: {OMP_NUM_THREADS: 1}
resources: {gpus: 0, ranks: $2, cpus: $2}
train:
  model: {preset: tiny}
  data: {path: $3, encoders: sana, vae: pipe, text_encoder: pipe, resolution: 192, text_rows: 16, cache_shard: 2}
  batch: {global: 2}
  steps: 2
retry: {max: 5, backoff: 0.05s..0.1s}
hang: {step: 1h}
YAML
    jobctl submit -q "$1.yaml"
}
files() { find "$1.encoded" -path "*/$2-*/*.safetensors" 2>/dev/null | wc -l; }
some() { [ "$(files "$@")" -ge 2 ]; }

# Two jobs at once: the first stands still, with some files made, until the second has said that it waits.
job first 1 pics
wait_event 1 kind=encoding >/dev/null
wait_for "status tells that data is encoded" says 'encoding data: ' jobctl status 1
says 'encoding data: 24 of 24 pictures and 25 of 25 captions' jobctl why 1
wait_for "some files of latents" some pics latents
first=$(rank_pid 1 0)
kill -STOP "$first"
matches 'phase data for .* of 24 done' jobctl-agent flight "$JOBCTL_HOME/jobs/1/1/rank0.flight"
job second 1 pics
wait_event 2 kind=encoding >/dev/null
[ "$(last_event 2 kind=encoding text | grep -c 'waiting for job 1 (first) on .*, which is filling the cache')" = 1 ]
says 'waiting for job 1 (first)' jobctl why 2
kill -CONT "$first"
jobctl wait 1 2
! events_of 2 kind=encoding text | grep 'are to be encoded' || exit 1
[ "$(last_event 2 kind=encoding over)" = true ]

# Two ranks, of which one is killed.
cp -r pics more
job third 2 more
wait_for "some files of latents" some more latents
kill -9 "$(rank_pid 3 1)"
jobctl wait 3
[ "$(events_of 3 kind=generation_started | wc -l)" = 2 ]
[ "$(last_event 3 kind=encoding over)" = true ]
[ "$(events_of 3 kind=encoding text | grep -c 'are to be encoded')" = 2 ]
! events_of 3 kind=encoding generation=2 text | grep '24 of 24 pictures' || exit 1
for data in pics more; do
    [ "$(files $data latents)" = 12 ] && [ "$(files $data text)" = 13 ]
done
for job in 1 3; do
    jobctl show $job --json >shown
    read_json holds "o['goodput']['data'] > o['goodput']['productive'] > 0" <shown
done

# What a job has read is verified against the cache that it filled; a picture that changed is none that it has read.
jobctl submit -q first.yaml --set train.data.sample_log=true
jobctl wait 4
jobctl verify-data 4 >said
grep -q 'data        24 samples, .* 0 errors' said
grep -q 'sample log  steps 1 to 2, 4 samples, .*each exactly once an epoch' said || { cat said; exit 1; }
cp "$TOP/tests/golden/data/img/cat.png" "$(find pics -name '*.png' | sort | head -n 1)"
code=0
jobctl verify-data 4 >said 2>&1 || code=$?
[ $code != 0 ]
grep -q 'pics.encoded lacks 1 of 24 pictures and 0 of 25 captions' said || { cat said; exit 1; }
