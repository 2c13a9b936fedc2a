# SPDX-License-Identifier: Apache-2.0
# A list that shows only some jobs begins with running jobs and the head of the queue, however old these are, and
# filters before it cuts; the daemon's answer has the counts of all jobs.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
printf 'run: "until [ -e %s/end ]; do sleep 0.05; done"
resources: {cpus: %s}
' "$WORK" "$(nproc)" >job.yaml
jobctl submit -q job.yaml
wait_event 1 kind=generation_started
for id in 2 3 4 5 6; do jobctl submit -q job.yaml; done
jobctl hold 2
jobctl submit -q --set priority=5 job.yaml

code 0 jobctl status -n 3 -o id
[ "$(grep -c . out)" = 4 ]
[ "$(tail -n 3 out | tr -d ' ' | tr '\n' ' ')" = '1 7 3 ' ] || { cat out; exit 1; }
code 0 jobctl status -n 1 -s held -o id
[ "$(tail -n 1 out | tr -d ' ')" = 2 ] || { cat out; exit 1; }
curl -s --unix-socket "$JOBCTL_HOME/jobctl.sock" 'http://jobctl/v1/jobs?states=active&limit=1' >out
json "o['counts'] == {'running': 1, 'pending': 5, 'held': 1} and [j['id'] for j in o['jobs']] == [1]"
code 0 curl -s --unix-socket "$JOBCTL_HOME/jobctl.sock" 'http://jobctl/v1/jobs?states=nonsense'
has 'unknown state \"nonsense\"' out
touch end
jobctl cancel 2
for id in 1 3 4 5 6 7; do jobctl wait "$id"; done
