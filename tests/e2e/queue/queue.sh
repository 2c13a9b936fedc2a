#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Queue order: priority before age, held jobs and jobs that wait for others block nobody, a job after a failed one can
# never start, every waiting job has a reason; a time limit, secrets, a retry.
. "$TOP/tests/e2e/wait.sh"
cd "$WORK"
export ORDER=$WORK/order
cpus=$(jobctl nodes --json | field nodes.0.cpus)
job() { # NAME [--set ...]: submit a job that takes the whole machine and writes its name
    local name=$1
    shift
    jobctl submit job.yaml --set "name=$name" --set "env.ORDER=$ORDER" --set "env.ME=$name" \
        --set "resources.cpus=$cpus" -q "$@"
}
why_says() { wait_for "job $1 says: $2" says "$2" jobctl why "$1"; } # JOB TEXT

cat >job.yaml <<'YAML'
run: |
  echo "$ME" >>"$ORDER"
  case $ME in
  first) until [ -e go ]; do sleep 0.01; done ;;
  fails) exit 3 ;;
  esac
retry: {max: 1, no_progress: 1}
YAML

job first
wait_for "the first job runs" test -s "$ORDER"
job low --set priority=-5
job usual
job held --set priority=9
jobctl hold held || { why_says held "turn"; jobctl hold held; }
job high --set priority=5
job later --set 'after=[low]' --set priority=9
job fails --set priority=8
job never --set 'after=[fails]'
why_says usual "ahead"
why_says high "ahead"
why_says later "waiting for job"
why_says held "held"
touch go
jobctl wait first low usual high later --timeout 60
[ "$(tr '\n' ' ' <"$ORDER")" = "first fails high usual low later " ] || { cat "$ORDER"; exit 1; }
rc=0
jobctl wait never --timeout 30 || rc=$?
[ $rc = 1 ]
why_says never "did not succeed"
why_says held "held"
jobctl hold --off held
jobctl wait held --timeout 30
rc=0
jobctl wait fails || rc=$?
[ $rc = 93 ]

# Its time is over.
printf 'run: sleep 1000\nmax_duration: 1s\n' >long.yaml
rc=0
jobctl submit long.yaml --wait -q || rc=$?
[ $rc = 1 ]
why_says last "max_duration"

# A secret reaches the ranks, and at the job's end it is in no file.
printf 'run: echo "${#PASSWORD}"\nsecrets: [PASSWORD]\n' >secret.yaml
PASSWORD=correct-horse jobctl submit secret.yaml --set name=secret --wait -q
[ "$(jobctl logs secret)" = 13 ]
! grep -r correct-horse "$JOBCTL_HOME" || exit 1
! jobctl submit secret.yaml -q || exit 1

# Waiting jobs survive the daemon, and so do their secrets; if they are gone, it says so.
kept=$(PASSWORD=x jobctl submit secret.yaml --hold -q)
lost=$(PASSWORD=x jobctl submit secret.yaml --hold -q)
kill -KILL "$(daemon_answers)"
rm "$JOBCTL_HOME/jobs/$lost/secrets.env"
jobctl hold --off "$kept"
jobctl wait "$kept" --timeout 30
kept=$lost
jobctl hold --off "$kept"
rc=0
jobctl wait "$kept" --timeout 30 || rc=$?
[ $rc = 1 ]
why_says "$kept" "secrets"

# A new try of a job that is done is a new job.
again=$(jobctl retry fails -q)
job_has "$again" retry_of
! jobctl retry first-of-none || exit 1
jobctl cancel "$again" 2>/dev/null || true
jobctl wait "$again" --timeout 30 || true

# One that is cancelled while it starts ends at once: its agent may be there and have no orders yet.
printf 'name: brief\nrun: sleep 600\nresources: {cpus: 1}\n' >brief.yaml
for pause in 0.01 0.02 0.03 0 0.01 0.02 0.03 0 0.01 0.02 0.03 0; do
    brief=$(jobctl submit -q brief.yaml)
    sleep $pause # at another moment of the start each time
    jobctl cancel "$brief" -q >cancelled
    rc=0
    jobctl wait "$brief" --timeout 30 || rc=$?
    [ $rc = 3 ]
done
