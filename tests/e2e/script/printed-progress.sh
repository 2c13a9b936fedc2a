# SPDX-License-Identifier: Apache-2.0
# An unmodified script: step, total, epoch, loss, learning rate and speed come from its output: plain lines, a redrawn
# bar, records next to a bar. A user-defined pattern is applied, "off" too, the page of templates/jobctl_progress.py
# takes precedence, and a wrong pattern is refused with its place.
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
. "$TOP/tests/e2e/expect.sh"
cp "$TOP/templates/jobctl_progress.py" "$WORK"

# submit NAME [LINE...]: a job that runs the script on standard input
submit() {
    cat >"$WORK/$1.py"
    { printf 'name: %s\nrun: python3 -u %s.py\nworkdir: %s\n' "$1" "$1" "$WORK"; printf '%s\n' "${@:2}"; } >"$WORK/$1.yaml"
    jobctl submit -q "$WORK/$1.yaml" >"$WORK/id"
    job=$(cat "$WORK/id")
}
# A script goes on when the test has seen it.
wait_code='import os, time
def seen(name):
    while not os.path.exists(name): time.sleep(0.01)'

# nanoGPT: no total anywhere
submit plain <<PY
$wait_code
for i in range(158):
    print(f"iter {i}: loss {2.6275 + (157 - i) / 100:.4f}, time 434.72ms, mfu 9.22%")
seen("plain.go")
PY
wait_for "step 157 of a plain script" job_is "$job" step 157
code 0 jobctl show "$job" --json
json "o['job']['loss'] == 2.6275 and o['job']['steps'] is None and abs(o['job']['step_ms'] - 434.72) < 1e-6"
code 0 jobctl status
matches '  157  *2.6275  *2.3 it/s  *-' cat "$WORK/out"
touch "$WORK/plain.go"
jobctl wait "$job"

# A trainer of Hugging Face: a bar by carriage returns on stderr, records on stdout, an evaluation in between
submit bar <<PY
$wait_code
import sys
print("***** Running training *****\n  Num Epochs = 3\n  Total optimization steps = 60")
for i in range(1, 31):
    sys.stderr.write(f"\r {i * 100 // 60:3d}%|####      | {i}/60 [00:{i:02d}<00:{60 - i:02d},  1.00it/s]")
    if i % 10 == 0:
        print({'loss': 2.5 - i / 100, 'grad_norm': 0.62, 'learning_rate': 1e-05 * i, 'epoch': i / 20})
    if i == 30:
        sys.stderr.write("\r 67%|####      | 2/3 [00:01<00:00,  1.68it/s]\r100%|####      | 3/3 [00:02<00:00,  1.68it/s]\n")
        print({'eval_loss': 0.31, 'eval_runtime': 45.1, 'eval_steps_per_second': 4.9, 'epoch': 1.5})
seen("bar.go")
PY
wait_for "step 30 of a bar" job_is "$job" step 30
wait_for "the record beside it" job_is "$job" epoch 1.5
code 0 jobctl show "$job" --json
json "o['job']['steps'] == 60 and o['job']['loss'] == 2.2 and o['job']['epochs'] == 3 and o['job']['eta_s'] == 30"
touch "$WORK/bar.go"
jobctl wait "$job"
job_is "$job" loss 2.2  # what was told last is kept

# Epochs around a bar that begins anew with each
submit epochs <<PY
$wait_code
for epoch in (1, 2):
    print(f"Epoch {epoch}/3")
    for i in range(1, 11):
        print(f"\r{i}/10 [{'=' * i}>] - ETA: {10 - i}s - loss: {1 / epoch + i / 100:.3f}", end="")
    print()
seen("epochs.go")
PY
wait_for "step 20 over two epochs" job_is "$job" step 20
[ "$(job_field "$job" steps)" = 30 ]
touch "$WORK/epochs.go"
jobctl wait "$job"

# One's own pattern, and none of the known ones beside it
submit own 'progress: "tick {step} of {steps} ... L={loss}"' <<PY
$wait_code
print("step 99/100 loss 9.9")
print("tick 7 of 90 at noon L=0.25")
seen("own.go")
PY
wait_for "the pattern" job_is "$job" step 7
[ "$(job_field "$job" loss)" = 0.25 ]
touch "$WORK/own.go"
jobctl wait "$job"

submit off 'progress: off' <<PY
print("step 99/100 loss 9.9")
PY
jobctl wait "$job"
[ "$(job_field "$job" step)" = null ]

# The page of the script wins over what it prints; the loss is the printed one.
submit page <<PY
$wait_code
from jobctl_progress import enter
print("step 99/100 loss 0.5")
enter(12)
seen("page.go")
PY
wait_for "the step of the page" job_is "$job" step 12
[ "$(job_field "$job" loss)" = 0.5 ]
touch "$WORK/page.go"
jobctl wait "$job"

printf 'run: "true"\nprogress: "it {stop}"\n' >"$WORK/wrong.yaml"
code 2 jobctl submit "$WORK/wrong.yaml"
has "wrong.yaml:2:11: progress: expected auto, off or a pattern" err
has "unknown field '{stop}'" err
