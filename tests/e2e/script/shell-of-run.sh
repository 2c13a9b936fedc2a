# SPDX-License-Identifier: Apache-2.0
# run: and setup: end with the first command that fails, including a missing `source` and a failure within a pipeline.
# The checkpoint directory exists before a script looks for it, or the job ends with an error.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"

# fails NAME CODE TEXT-OF-RUN: ends with the code, and `after` is not printed
fails() {
    printf 'name: %s\nretry: {max: 0}\nresources: {cpus: 1}\nrun: |\n%s\n  echo after\n' "$1" "$3" >"$1.yaml"
    code 1 jobctl submit --wait "$1.yaml"
    code 0 jobctl logs "$1"
    lacks after out
    code 0 jobctl why "$1"
    has "$2" out
}
fails command "exited with code 7" '  (exit 7)'
fails missing "exited with code" '  . nowhere/bin/activate'
if [ -x /bin/bash ] || [ -x /usr/bin/bash ]; then
    fails source "exited with code 1" '  source nowhere/bin/activate'
    fails pipeline "exited with code 5" '  (exit 5) | cat'
fi
printf 'name: setup\nretry: {max: 0}\nresources: {cpus: 1}\nsetup: |\n  (exit 3)\n  true\nrun: echo ran\n' >setup.yaml
code 1 jobctl submit --wait setup.yaml
code 0 jobctl why setup
has "the setup exited with code 3" out

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
