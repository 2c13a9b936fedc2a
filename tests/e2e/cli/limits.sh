# SPDX-License-Identifier: Apache-2.0
# Badly behaved payloads: a setup that fails or hangs, much output, ranks that ignore signals, children that hide, a
# plan that must leave nothing behind.
cd "$WORK"
. "$TOP/tests/e2e/expect.sh"

# A setup that fails is shown, and where its output is.
printf 'setup: echo "no wheels here"; exit 3\nrun: "true"\nretry: {max: 0}\nresources: {cpus: 1}\n' >setup.yaml
code 1 jobctl submit --wait setup.yaml
code 0 jobctl logs last
has "logs last --setup" err
code 0 jobctl logs last --setup
has "no wheels here" out
code 0 jobctl why last
has "the setup exited with code 3: no wheels here" out

# max_duration counts from the start, and the setup is part of the job.
printf 'setup: sleep 600\nrun: "true"\nmax_duration: 1s\nresources: {cpus: 1}\n' >hangs.yaml
code 1 timeout 30 jobctl submit --wait hangs.yaml
code 0 jobctl why last
has "max_duration" out
has "setup was killed by signal 15" out
lacks "exited with code 0" out
printf 'run: sleep 600\nmax_duration: 1s\nresources: {cpus: 1}\n' >long.yaml
code 1 timeout 30 jobctl submit --wait long.yaml
code 0 jobctl why last
has "max_duration" out
lacks "exited with code 0" out

# Output beyond the limit of a file: the end is never missing, and who follows sees all of it.
cat >much.yaml <<'YAML'
run: |
  { yes "twenty-four bytes a line" || true; } | head -n 2800000
  echo "this is the end"
resources: {cpus: 1}
YAML
code 0 jobctl submit --wait much.yaml
code 0 jobctl logs last -n 2
has "this is the end" out
[ "$(wc -l <out)" = 2 ]
jobctl logs last | sha256sum >whole
{ yes "twenty-four bytes a line" || true; } | head -n 2800000 | { cat; echo "this is the end"; } | sha256sum |
    cmp - whole || { echo "output is missing"; exit 1; }
[ -e "$JOBCTL_HOME"/jobs/*/1/rank0.log.1 ]

# One line without an end, and bytes that are no text.
cat >odd.yaml <<'YAML'
run: |
  head -c 300000 /dev/zero | tr '\0' x
  printf '\377\376 \033[31m\r'
  printf 'no newline at the end'
resources: {cpus: 1}
YAML
code 0 jobctl submit --wait odd.yaml
code 0 jobctl logs last
tail -c 22 out | grep -q "no newline at the end"
[ "$(tr -dc x <out | wc -c)" = 300000 ]

# Children that left the session or ignore SIGTERM go with the job; nobody waits for them.
cat >hides.yaml <<'YAML'
run: |
  setsid sh -c 'trap "" TERM HUP INT; while :; do sleep 1; done' >/dev/null 2>&1 &
  (nohup sleep 600 >/dev/null 2>&1 &)
  echo "gone"
resources: {cpus: 1}
YAML
code 0 timeout 60 jobctl submit --wait hides.yaml

# A cancel that the payload ignores: --now does not wait for it.
cat >stubborn.yaml <<'YAML'
run: |
  trap "" TERM HUP INT
  echo up
  while :; do sleep 0.1; done
resources: {cpus: 1}
YAML
jobctl submit -q stubborn.yaml >id
wait_for "the payload is up" says up jobctl logs last
code 0 jobctl cancel last
code 0 jobctl cancel last --now
code 3 timeout 20 jobctl wait last
code 0 jobctl why last
has "was cancelled" out
has "on request" out
lacks "exited with code 0" out

# The daemon's own answers hold no secret, and no file of it does.
printf 'secrets: [MY_TOKEN]\nrun: "[ ${#MY_TOKEN} = 19 ]"\nresources: {cpus: 1}\n' >secret.yaml
MY_TOKEN=hunter2-of-the-test code 0 jobctl submit --wait secret.yaml
! grep -rqF hunter2-of-the-test "$JOBCTL_HOME" || exit 1
code 2 jobctl submit secret.yaml
has "MY_TOKEN" err

# A plan leaves nothing where it was asked for.
mkdir plan plan/tmp
printf 'train: {data: {path: %s/templates/data/tango-icons}, steps: 10}\n' "$TOP" >plan/train.yaml
(cd plan && TMPDIR=$PWD/tmp code 0 jobctl plan train.yaml)
has "24 samples" out
[ "$(ls plan)" = "$(printf 'tmp\ntrain.yaml')" ]
[ -z "$(ls plan/tmp)" ]
