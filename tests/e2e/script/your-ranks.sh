# SPDX-License-Identifier: Apache-2.0
# A plain loop with DDP over gloo, two ranks, with the job file of docs/YOUR-SCRIPT.md: its progress is detected; one
# rank spins, which hang.step detects, with its line; preempted during a save, it saves, and resumes in the next
# attempt.
/usr/bin/python3 -c 'import torch' 2>/dev/null ||
    { echo "python3-torch is not installed (deploy/bootstrap.sh --all)"; exit 77; }
. "$TOP/tests/e2e/examples.sh"
python_is /usr/bin/python3
example ddp
script ddp ddp.py ddp_style.py
grep -qx 'hang: {step: 60s}' "$WORK/ddp.yaml"
submits ddp --set resources.ranks=2 --set hang.step=10s --set env.TROUBLE="spin 30" --set env.TROUBLE_RANK=1
wait_for "step 29" told "$job" "o['step'] == 29 and o['steps'] == 1000 and o['loss'] and o['step_ms'] > 0"
wait_event "$job" kind=hang | field text | grep 'none of 2 ranks has printed anything for'
wait_event "$job" kind=generation_started generation=2 >/dev/null
grep -A30 'on rank 1, stacks of Python' "$JOBCTL_HOME/jobs/$job/1/incident-1.txt" | grep 'in fetch_from_a_broken_disk'
wait_for "both ranks to go on" says "rank 1 begins after step 25" jobctl logs "$job" --rank 1
in_save ddp "$job" kill -TERM "$(agent_pid "$job" 1)"
wait_event "$job" kind=generation_started attempt=2 >/dev/null
wait_for "the next attempt to go on" says "rank 0 begins after step" jobctl logs "$job" --attempt 2
step=$(jobctl logs "$job" --attempt 2 | sed -n 's/^rank 0 begins after step //p')
[ "$step" -gt 25 ] && [ $((step % 25)) = 1 ]  # all ranks ended after the step after the save
[ "$(ls "$ckpt")" = latest.pt ]
says 'the agent got SIGTERM' jobctl why "$job"
cancels "$job"
