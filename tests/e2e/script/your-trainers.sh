# SPDX-License-Identifier: Apache-2.0
# The job files of docs/YOUR-SCRIPT.md with unmodified scripts in the style of Hugging Face, Lightning and nanoGPT: the
# progress of each is detected; each is stopped during a save, which is complete nevertheless, and resumes from it. One
# of them sleeps forever and is detected, one is preempted.
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
. "$TOP/tests/e2e/examples.sh"
python_is python3
example hf
example fit
script hf train.py hf_style.py
script fit fit.py lightning_style.py

# Hugging Face: the data of step 30 never comes, and the script sleeps.
submits hf --set hang.silent=3s --set env.TROUBLE="sleep 30" \
    --set 'run=python train.py --output_dir $JOBCTL_CKPT_DIR --save_steps 25'
hf=$job hf_ckpt=$ckpt
wait_for "step 29 of a Trainer" told "$hf" "o['step'] == 29 and o['steps'] == 2000 and o['eta_s'] > 0"
wait_for "its loss and speed" told "$hf" "o['loss'] == 1.7857 and (o['step_ms'] or 0) > 0"

# Lightning, meanwhile: preempted
submits fit
fit=$job
wait_for "steps beyond the first epoch" told "$fit" "(o['step'] or 0) > 100"
wait_for "its loss and speed" told "$fit" "0 < (o['loss'] or 0) < 1 and (o['step_ms'] or 0) > 0 and o['steps'] is None and o['eta_s'] is None"
in_save fit "$fit" kill -TERM "$(agent_pid "$fit" 1)"
wait_event "$fit" kind=generation_started attempt=2 >/dev/null
wait_for "Lightning to go on" says "Restored all states" jobctl logs "$fit" --attempt 2
whole "$ckpt/last.ckpt"
says 'the agent got SIGTERM' jobctl why "$fit"
cancels "$fit"

# The one that slept was found, explained, restarted, and went on.
wait_event "$hf" kind=hang | field text | grep 'rank 0 hangs: none of its processes has shown a sign of life'
wait_event "$hf" kind=generation_started generation=2 >/dev/null
grep -A30 'stacks of Python' "$JOBCTL_HOME/jobs/$hf/1/incident-1.txt" |
    grep 'batches.py", line [0-9]* in fetch_from_a_broken_disk'
wait_for "the Trainer to go on" says "Continuing training from global step 25" jobctl logs "$hf"
in_save hf "$hf" jobctl cancel "$hf"
code 3 jobctl wait "$hf"
for folder in "$hf_ckpt"/checkpoint-*; do
    whole "$folder/model.safetensors" && [ -s "$folder/trainer_state.json" ] || { ls -l "$folder"; exit 1; }
done
last=$(basename "$(ls -dv "$hf_ckpt"/checkpoint-* | tail -n 1)")
[ $((${last#checkpoint-} % 25)) = 1 ]   # the step after the save during which it was asked
job=$(jobctl retry -q "$hf")
wait_for "the next job to go on" says "Continuing training from global step ${last#checkpoint-}" jobctl logs "$job"
cancels "$job"

# nanoGPT: torch.save in its place, and no handler
/usr/bin/python3 -c 'import torch' 2>/dev/null || { echo "not nanoGPT: python3-torch is not installed"; exit 0; }
python_is /usr/bin/python3
example nanogpt
script nanoGPT train.py nanogpt_style.py
cp "$TOP/templates/whole_save.py" "$WORK/nanoGPT"
submits nanogpt
gpt=$job
wait_for "step 26 of nanoGPT" told "$gpt" "(o['step'] or 0) > 25 and o['loss'] and o['step_ms'] > 0"
before=$(stat -c %i "$ckpt/ckpt.pt")
in_save nanoGPT "$gpt" jobctl cancel "$gpt"
code 3 jobctl wait "$gpt"
[ "$(stat -c %i "$ckpt/ckpt.pt")" != "$before" ]
[ "$(ls "$ckpt")" = ckpt.pt ]
job=$(jobctl retry -q "$gpt")
wait_for "the next job to go on" says "Resuming training from" jobctl logs "$job"
wait_for "a step of it" told "$job" "(o['step'] or 0) > 25"
cancels "$job"
