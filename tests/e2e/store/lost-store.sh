# SPDX-License-Identifier: Apache-2.0
# After a lost store no id is reused, and a job does not continue a foreign checkpoint in its checkpoint.dir; it does
# continue its own, those of jobs that it waited for, of the job that it retries, and one that it names.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
spec() { # NAME STEPS SEED [MORE]: a job that trains
    cat >"$1.yaml" <<YAML
name: $1
train:
  model: {preset: tiny}
  data: {path: $TOP/templates/data/tango-icons}
  batch: {global: 4}
  steps: $2
  seed: $3
  sample: {before: false, after: false}
checkpoint: {every: 10 steps, keep: 9${5:-}}
${4:-}
YAML
}
resumed() { events_of "$1" kind=rank_started resume_step | tail -n 1; }

spec first 20 1
jobctl submit -q --wait first.yaml
stop_daemon
rm -r "$JOBCTL_HOME"/jobs.db* "$JOBCTL_HOME/snapshots"

# The store is new, job 1 is taken over: the next job is another one, and starts at its own beginning.
spec second 20 2
id=$(jobctl submit -q --wait second.yaml)
[ "$id" = 2 ]
[ "$(resumed 2)" = 0 ]
job_is 1 result succeeded
[ -d "$JOBCTL_HOME/jobs/1/checkpoints/step-00000020" ]

# Two jobs on one directory: the second is refused, by the name of the first, and touches nothing there.
shared=", dir: $WORK/shared"
spec owner 20 3 '' "$shared"
jobctl submit -q --wait owner.yaml
(cd shared && find . -type f -name '*.safetensors' -exec sha256sum {} + | sort) >before
spec stranger 30 4 '' "$shared"
code 1 jobctl submit -q --wait stranger.yaml
jobctl why last | tr -s ' \n' ' ' >why
has 'step-00000020 was written by another job (owner): set another checkpoint.dir for this job' why
has "continue from it with \`resume: $WORK/shared/step-00000020\`" why
(cd shared && find . -type f -name '*.safetensors' -exec sha256sum {} + | sort) | cmp before -
gone shared/quarantine

# Recorded lineage: a job after it, a retry of that one, and a checkpoint that is named.
spec follower 30 3 'after: [owner]' "$shared"
code 0 jobctl submit -q --wait follower.yaml
[ "$(resumed "$(cat out)")" = 20 ]
spec third 50 3 'after: [follower]' "$shared"
code 0 jobctl submit -q --wait third.yaml
[ "$(resumed "$(cat out)")" = 30 ]
spec named 60 3 "resume: $WORK/shared/step-00000050" ", dir: $WORK/named"
code 0 jobctl submit -q --wait named.yaml
[ "$(resumed "$(cat out)")" = 50 ]
