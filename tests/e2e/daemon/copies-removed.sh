# SPDX-License-Identifier: Apache-2.0
# jobctl rm also removes a job's code copies from its hosts: at once, or when the host is back, if necessary by the next
# daemon; copies of other jobs and the checkpoints stay.
. "$TOP/tests/hosts.sh"
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
hosts_up one
mkdir w
cat >w/job.yaml <<'YAML'
launch: ssh
hosts: [one]
snapshot: true
resources: {gpus: 0, ranks: 1}
run: touch "wrote.$NAME"; mkdir -p ../../checkpoints; touch ../../checkpoints/kept
YAML
copies() { find one/.local/state/jobctl/hosted -name "wrote.$1"; }
for name in a b c; do
    code 0 jobctl submit -q --wait w/job.yaml --set name=$name --set env.NAME=$name
    [ "$(copies $name | wc -l)" = 1 ]
done
kept=$(dirname "$(dirname "$(dirname "$(copies a)")")")
code 0 jobctl rm a
gone() { [ -z "$(copies "$1")" ]; }
wait_for "the copy is removed" gone a
wait_for "and forgotten" grep -q 'job 1: its copy of the code on one: it is removed' "$JOBCTL_HOME/daemon.log"
[ -e "$kept/checkpoints/kept" ]
[ ! -e "$kept/code" ]
[ "$(copies b | wc -l)" = 1 ]

# The host is away, and the daemon ends.
host_down one
code 0 jobctl rm b
rows() { [ "$(sqlite3 "$JOBCTL_HOME/jobs.db" 'select group_concat(job || host) from host_copies')" = "$1" ]; }
rows 2one
stop_daemon KILL
[ "$(copies b | wc -l)" = 1 ]
host_up one
code 0 jobctl status -a
wait_for "the copy is removed" gone b
wait_for "nothing is left to do" rows ''
[ "$(copies c | wc -l)" = 1 ]
