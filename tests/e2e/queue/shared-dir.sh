# SPDX-License-Identifier: Apache-2.0
# Jobs of one home that name the same checkpoint.dir: the second waits without holding a slot and names the first, also
# through a link, after a restart of the daemon and while the first is between two attempts; other jobs overtake it.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
mkdir shared
ln -s shared alias
cat >job.yaml <<YAML
run: echo "\$ME" >>$WORK/order; until [ -e $WORK/go-\$ME ]; do sleep 0.01; done; [ "\$ME" != first ]
resources: {ranks: 1, cpus: 1}
retry: {max: 1, no_progress: 9}
YAML
job() { jobctl submit -q job.yaml --set "name=$1" --set "env.ME=$1" "${@:2}"; } # NAME [--set ...]
began() { grep -qx "$1" order; }
waits() { wait_for "job $1 waits for $2" says "waiting for $2, which writes $WORK/shared" jobctl why "$1"; } # JOB WRITER

job first --set checkpoint.dir=shared
wait_for "the first job runs" began first
job second --set checkpoint.dir="$WORK/alias"
job third --set checkpoint.dir=shared/ --set 'after=[second]'
job apart --set checkpoint.dir=shared-too
waits second "job 1 (first)"
says "waiting for job 2 to succeed" jobctl why third
wait_for "a job with another directory passes it" began apart
job_is second state pending
jobctl status | grep second >line
has "waiting for job 1" line

# The first fails, is tried again and fails again: the directory is its own until it is done.
stop_daemon
waits second "job 1 (first)"
touch go-first
wait_for "two attempts of the first" eval '[ "$(grep -cx first order)" = 2 ]'
wait_for "the second begins" began second
code 93 jobctl wait first
touch go-second go-third go-apart
jobctl wait second third apart --timeout 60
[ "$(grep -vx apart order | tr '\n' ' ')" = "first first second third " ] || { cat order; exit 1; }
