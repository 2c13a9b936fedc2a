# SPDX-License-Identifier: Apache-2.0
# Requests to the daemon that change jobs.
cd "$WORK"
. "$TOP/tests/e2e/expect.sh"

# None runs, and neither status nor stop starts one.
code 2 jobctl daemon stopp
has 'unknown word "stopp"; use jobctl daemon stop, restart or status' err
code 2 jobctl daemon stop --detach
has "daemon stop takes neither --detach" err
code 3 jobctl daemon status
has "The daemon is not running; the next command starts it." out
code 3 jobctl daemon status --json
json 'o["daemon"] is None'
code 0 jobctl daemon stop
has "is not running" out
[ ! -e "$JOBCTL_HOME" ]

code 0 jobctl daemon restart
has "was not running; it is started" out
code 0 jobctl run -d -q --set resources.cpus=1 'echo up; exec sleep 600'
wait_for "the job runs" says up jobctl logs 1
first=$(daemon_pid)
code 0 jobctl daemon status
has "has been running since" out
has "pid $first" out
has "home  $JOBCTL_HOME" out
has "jobs  1 job: 1 running" out
code 0 jobctl daemon restart
ended "$first"
code 0 jobctl daemon status --json
json "o['daemon']['pid'] != $first"
second=$(daemon_pid)
code 0 jobctl daemon stop
ended "$second"
code 3 jobctl daemon status
# The job has seen nothing of it.
[ "$(job_field 1 state) $(job_field 1 attempt) $(job_field 1 generation)" = "running 1 1" ]
code 0 jobctl cancel 1 --now
code 3 jobctl wait 1
