# SPDX-License-Identifier: Apache-2.0
# Checkpoints of an earlier version have no origin: origin.json beside them names the job that they are of, so that
# another job with this checkpoint.dir is refused, and may name one by `resume:`.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
older=$(echo "$TOP"/tests/fixtures/*/home/jobs/11 | xargs -n 1 | tail -n 1)
cp -r "$older/checkpoints" shared
printf '{"origin":"%032d"}\n' 7 >shared/origin.json
step=$(ls shared | grep '^step-' | tail -n 1)
train() { # NAME [KEY]...: the training of the fixture, with another checkpoint.dir
    sed -n '/^train:/,/^[a-su-z]/{/^[a-su-z]/!p}' "$older/spec.yaml" >body
    printf 'name: %s\nresources: {ranks: 1, cpus: 1, gpus: 0}\nretry: {max: 0}\n' "$1"
    printf '%s\n' "${@:2}"
    cat body
}
train other "checkpoint: {dir: $WORK/shared}" >other.yaml
code 1 jobctl submit -q --wait other.yaml
jobctl why other | tr -s ' \n' ' ' >why
has "shared/$step was written by another job (interrupted)" why
train named "checkpoint: {dir: $WORK/shared}" "resume: $WORK/shared/$step" >named.yaml
code 0 jobctl submit -q --wait named.yaml
code 0 jobctl logs named
has 'resumed: step' out
