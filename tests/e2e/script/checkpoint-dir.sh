# SPDX-License-Identifier: Apache-2.0
# The checkpoint directory exists before a script or its setup writes into it.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"

# A script saves at once, and its setup as well.
cat >saves.yaml <<'YAML'
checkpoint: {dir: deep/er}
resources: {cpus: 1}
setup: touch "$JOBCTL_CKPT_DIR/by-setup"
run: touch "$JOBCTL_CKPT_DIR/by-run"
YAML
code 0 jobctl submit --wait saves.yaml
[ -e deep/er/by-setup ] && [ -e deep/er/by-run ]
code 0 jobctl submit --wait saves.yaml --set checkpoint.dir=auto
[ -e "$JOBCTL_HOME/jobs/$(jobctl show last --json | field job.id)/checkpoints/by-run" ]
