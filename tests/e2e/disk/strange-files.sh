# SPDX-License-Identifier: Apache-2.0
# FIFOs and links in place of logs, reports, identity and log bases: daemon and agent answer all requests, report in one
# sentence what they found, write nothing through a link, and remove all of it.
cd "$WORK"
. "$TOP/tests/e2e/expect.sh"
jobs=$JOBCTL_HOME/jobs
soon() { timeout 60 jobctl "$@"; }
echo precious >precious

# Done jobs: the log of 1 is a FIFO, that of 2 a link, the older part and base of the log of 3 are FIFOs.
printf 'name: plain\nrun: echo hello\nresources: {cpus: 1}\n' >plain.yaml
for _ in 1 2 3; do jobctl submit -q plain.yaml; done
jobctl wait 1-3
rm "$jobs/1/1/rank0.log" "$jobs/2/1/rank0.log" "$jobs/2/1/agent.log"
mkfifo "$jobs/1/1/rank0.log" "$jobs/1/1/incident-1.txt" "$jobs/1/1/setup.log"
ln -s "$WORK/precious" "$jobs/2/1/rank0.log"
ln -s /dev/zero "$jobs/2/1/agent.log"
mkfifo "$jobs/3/1/rank0.log.base" "$jobs/3/1/rank0.log.1"
code 4 soon logs 1
has "cannot open $jobs/1/1/rank0.log: it is a FIFO, not a regular file" err
code 4 soon logs 2
has "cannot open $jobs/2/1/rank0.log: it is a symbolic link, not a regular file" err
lacks precious out
code 0 soon logs 3
has hello out
for job in 1 2 3; do
    code 0 soon show $job
    code 0 soon why $job
    code 0 soon show $job --report "$WORK/$job.tgz"
    tar xzf "$job.tgz"
done
grep 'is a FIFO, not a regular file' job-1/attempt-1/rank0.log job-1/attempt-1/incident-1.txt
grep 'is a symbolic link, not a regular file' job-2/attempt-1/rank0.log job-2/attempt-1/agent.log
grep hello job-3/attempt-1/rank0.log

# A living job puts a FIFO in the place of its log, of the report to come and of its agent's identity. A new
# daemon answers, and the job ends as it would have.
cat >plants.yaml <<'YAML'
name: plants
run: |
  cd "$PLANT_IN"
  mkfifo rank0.log.base incident-1.txt agent.json.new history.jsonl
  ln -s "$PRECIOUS" rank0.log.base.new
  echo planted
  exec sleep 600
env: {PLANT_IN: HOME/jobs/4/1, PRECIOUS: WORK/precious}
resources: {cpus: 1}
YAML
sed -i "s#HOME/#$JOBCTL_HOME/#; s#WORK/#$WORK/#" plants.yaml
jobctl submit -q plants.yaml
wait_for "the job's word" says planted soon logs 4
daemon=$(daemon_pid)
mv "$jobs/4/1/agent.json" agent.json
mkfifo "$jobs/4/1/agent.json"
kill -9 "$daemon"
wait_for "the end of the daemon" ended "$daemon"
code 0 soon status -a
code 0 soon show 4
rm "$jobs/4/1/agent.json"
mv agent.json "$jobs/4/1/agent.json"
code 0 soon show 4 --report "$WORK/4.tgz"
code 0 soon cancel 4
soon wait 4 || [ $? = 3 ]

code 0 soon prune --yes --older-than 0s
for job in 1 2 3 4; do gone "$jobs/$job"; done
[ "$(cat precious)" = precious ]
