# SPDX-License-Identifier: Apache-2.0
# checkpoint.mirror and jobctl adopt: the training machine is lost, and another one resumes from the mirror, with the
# bits of an undisturbed run. Two machines cannot train one job.
. "$TOP/tests/e2e/expect.sh"
first=$WORK/vm1 second=$WORK/vm2 drive=$WORK/drive
on() { local home=$1; shift; JOBCTL_HOME=$home "$@"; }
end() { kill "$(on "$1" daemon_pid)"; }
mkdir "$drive"
cat >"$WORK/icons.yaml" <<YAML
name: icons
train:
  model: {preset: tiny}
  data: {path: $TOP/templates/data/tango-icons}
  batch: {global: 4}
  steps: 800
  sample: {after: false}
checkpoint: {every: 25 steps, mirror: $drive}
YAML

# A mirror that is not there is no mirror.
code 2 jobctl submit --dry-run --set checkpoint.mirror=nowhere "$WORK/icons.yaml"
has "checkpoint.mirror: $WORK/nowhere does not exist" err

# Undisturbed, for the bits.
on "$first" jobctl submit -q --wait --set name=calm "$WORK/icons.yaml" >/dev/null
cmp "$drive/calm/checkpoints/step-00000800/model.safetensors" \
    "$first/jobs/1/checkpoints/step-00000800/model.safetensors"
grep -q '"released":true' "$drive/calm/lease.json"

# Everything of the first machine dies at once, and its disk goes too.
on "$first" jobctl submit -q "$WORK/icons.yaml"
copies() { ls "$drive/icons/checkpoints" 2>/dev/null | grep -c '^step-' || true; }
two_copies() { [ "$(copies)" -ge 2 ]; }
wait_for "two checkpoints in the mirror" two_copies
run=$first/jobs/2/1

# Nobody takes it away from one who lives.
code 1 on "$second" jobctl adopt --yes "$drive/icons" --wait
has "stop it there first" out

victims="$(on "$first" daemon_pid) $(field pid <"$run/agent.json") $(field pid <"$drive/icons/lease.json")
$(on "$first" last_event 2 kind=generation_started pids)"
kill -9 $victims
wait_for "all of the first machine ends" ended $victims
rm -rf "$first"

# What is on the drive may end in the middle of a copy, or be damaged: the one before is taken.
newest=$(ls -d "$drive"/icons/checkpoints/step-* | tail -n 1)
truncate -s 1000 "$newest/model.safetensors"
mkdir "$drive/icons/checkpoints/.tmp-half"

code 0 on "$second" jobctl adopt --yes "$drive/icons" --wait
code 0 on "$second" jobctl logs --events last
has "adopted from $drive/icons: continues job 2 of" out
has "generation 1 starts" out
has "restored from the mirror" out
has "is damaged" out
lacks "from step 0 of" out
cmp "$drive/calm/checkpoints/step-00000800/model.safetensors" \
    "$drive/icons/checkpoints/step-00000800/model.safetensors"
grep -q '"token":2' "$drive/icons/lease.json"
[ "$(read_json each step <"$second/jobs/2/checkpoints/metrics.jsonl" | sort -n | uniq -d)" = "" ]
head -n 1 "$second/jobs/2/checkpoints/metrics.jsonl" | grep -q '"step":1,'

# Another job of that name has another mirror.
code 1 on "$second" jobctl submit --wait "$WORK/icons.yaml"
has "mirror of another job" out
code 3 on "$second" jobctl adopt --yes "$WORK"
has "is not a job's mirror" err
end "$second"
