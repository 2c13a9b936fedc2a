# SPDX-License-Identifier: Apache-2.0
# The disk of the checkpoints is full. Curves and sample logs are skipped with one warning, and the bits stay the same.
# Training pauses with its steps in memory until a checkpoint fits, reports what it needs, loses no step and takes no
# second attempt; it names the finished jobs that use most of the disk, and those of their directories that no command
# deletes; it can be cancelled while paused; after retry.disk_wait it ends, and starts again when there is space.
. "$TOP/tests/e2e/events.sh"
${CC:-cc} -D_GNU_SOURCE -shared -fPIC -o "$WORK/disk.so" "$TOP/tests/fake/disk.c" -ldl

# job NAME TEXT [RETRY [RANKS]]: while the file NAME.full is there, paths with TEXT in them are on a full disk
job() {
    cat >"$WORK/$1.yaml" <<YAML
name: $1
env: {LD_PRELOAD: $WORK/disk.so, FAKE_DISK_FULL: "$2:$WORK/$1.full", OMP_NUM_THREADS: 1}
resources: {gpus: 0, ranks: ${4:-1}}
train:
  model: {preset: tiny}
  data: {path: $TOP/templates/data/tango-icons, caption_words: 4, caption_channels: 32, sample_log: true}
  batch: {global: 4, micro: 2}
  steps: 40
  ema: 0.9
  seed: 5
  reproducible: true
  sample: {after: false}
checkpoint: {every: 10 steps, keep: 9, dir: $WORK/$1}
retry: {max: 3, backoff: 0.05s..0.1s${3:-}}
YAML
    jobctl submit -q "$WORK/$1.yaml"
}
same() { # NAME: the bits of the undisturbed run
    local f
    for f in model.safetensors optimizer.safetensors; do
        cmp "$WORK/plain/step-00000040/$f" "$WORK/$1/step-00000040/$f"
    done
}
job plain /nowhere
jobctl wait 1

# No room for the logs alone, from the start to the end.
touch "$WORK/curve.full" "$WORK/samples.full"
job curve /curve/metrics.jsonl
job samples /samples/sample-log
jobctl wait 2 3
for name in curve samples; do
    same $name
done
for id in 2 3; do
    [ "$(events_of $id kind=warning text | grep -c 'No space left on device; training continues')" = 1 ]
    [ "$(job_field $id attempt)" = 1 ]
done
[ ! -e "$WORK/curve/metrics.jsonl" ]

# Of the done jobs two are large enough to be named by what would free the disk.
head -c 3000000 /dev/zero >"$JOBCTL_HOME/jobs/2/large"
head -c 5000000 /dev/zero >"$JOBCTL_HOME/jobs/3/large"
FREES='jobctl remove --checkpoints 3 2 would free 7.[0-9] MiB (job 3: 4.[0-9] MiB, job 2: 2.[0-9] MiB)'

# The directories that their specs name are in nobody's use; the job that waits has one as well.
HELD="$WORK/[a-z]* (job [1-4]: [0-9.]* MiB)"

# No room for the first checkpoint: it waits in a step after it, as it says, and goes on from there.
waited() { # ID SECONDS: so long its ranks waited for the disk, and no part of that is lost
    jobctl show "$1" --json >"$WORK/shown"
    python3 - "$WORK/shown" "$2" <<'PY'
import json, sys
g = json.load(open(sys.argv[1]))["goodput"]
assert g["disk"] >= float(sys.argv[2]) and g["checkpoint"] < g["disk"], g
PY
}
full() { # ID NAME RANKS SENTENCE: it needs so much, and the disk ...
    local told
    job "$2" "/$2/.tmp-" '' "$3"
    wait_event "$1" kind=no_room >/dev/null
    [ "$(last_event "$1" kind=no_room bytes)" -gt 1000000 ]
    wait_for "status tells the need of job $1" says 'no room for the checkpoint of step 1' jobctl status "$1"
    told=$(jobctl why "$1" --json | field text)
    grep -F 'It waits for its disk: no room for the checkpoint of step 1' <<<"$told"
    ! grep -F 'Speed:' <<<"$told" || exit 1
    ! job_has "$1" eta_s || exit 1
    grep -F "MiB, and the disk of $WORK/$2 $4. Training is paused" <<<"$told"
    job_is "$1" state running
    wait_for "status of job $1 tells what would free its disk" matches "$FREES" jobctl status "$1"
    jobctl why "$1" --json | field text | grep "$FREES"
    jobctl why "$1" --json | field text | grep " Delete by hand what you no longer need: $HELD, $HELD\\."
    jobctl $(jobctl why "$1" --json | field text | grep -o 'remove --checkpoints [0-9 ]*') --dry-run
    $(grep -o 'jobctl prune .*--dry-run' <<<"$told") | grep -F '(plain)' # what it names lists a finished job
    [ -z "$(ls -d "$WORK/$2"/step-* "$WORK/$2"/.tmp-* 2>/dev/null)" ]
    rm "$WORK/$2.full"
    jobctl wait "$1"
    same "$2"
    jobctl-train verify-data --spec "$JOBCTL_HOME/jobs/$1/spec.json" --dir "$WORK/$2" >"$WORK/$2.data"
    cut -d, -f1,2 "$WORK/$2/metrics.jsonl" >"$WORK/$2.losses"
    cut -d, -f1,2 "$WORK/plain/metrics.jsonl" | cmp - "$WORK/$2.losses"
    [ "$(events_of "$1" kind=rank_started rank=0 | wc -l)" = 1 ]
    [ "$(last_event "$1" kind=no_room over)" = true ]
    [ "$(jobctl why "$1" --json | field text | grep -c "waits for its disk")" = 0 ]
    waited "$1" 0.4
}
touch "$WORK/alone.full"
full 4 alone 1 'has 0.0 MiB free'
echo 122 >"$WORK/both.full" # EDQUOT: the disk itself has room
full 5 both 2 'is full'

# Cancelled while it waits.
touch "$WORK/ended.full"
job ended /ended/.tmp-
wait_event 6 kind=no_room >/dev/null
jobctl cancel 6
jobctl wait 6 || true
job_is 6 result cancelled

# It waits for a second only, and is started again and again, more often than retry.max, until there is room.
touch "$WORK/tried.full"
job tried /tried/.tmp- ', disk_wait: 1s'
wait_for 'job 7 is in attempt 6' last_event 7 kind=placed attempt=6
last_event 7 kind=attempt_ended cause=disk_full
events_of 7 kind=attempt_ended text | head -n 1 | grep 'no room for the checkpoint of step 1[0-9]* within 1 s'
events_of 7 kind=attempt_ended text | tail -n 1 | grep 'still no room'
[ "$(events_of 7 kind=no_room | wc -l)" = 1 ] # later attempts do not hold their GPUs for it
rm "$WORK/tried.full"
jobctl wait 7
same tried
waited 7 1

# While its GPUs are free and it is to be tried again, it tells as well what would free its disk.
touch "$WORK/later.full"
sed 's/name: tried/name: later/; s|/tried|/later|g; s/backoff: [^,]*/backoff: 300s..300s/' "$WORK/tried.yaml" >"$WORK/later.yaml"
jobctl submit -q "$WORK/later.yaml"
wait_event 8 kind=placed attempt=2 >/dev/null
wait_for "status of job 8 tells what would free its disk" matches "$FREES" jobctl status 8
job_is 8 state recovering
jobctl why 8 --json | field text | grep "$FREES"
jobctl cancel 8
jobctl wait 8 || true
