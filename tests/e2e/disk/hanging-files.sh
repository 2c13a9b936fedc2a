# SPDX-License-Identifier: Apache-2.0
# The file system of one job's directory hangs: requests that need it report that, as does the job, and the daemon
# continues everything else. Once the file system answers again, so do they.
cd "$WORK"
. "$TOP/tests/e2e/expect.sh"
jobs=$JOBCTL_HOME/jobs
${CC:-cc} -D_GNU_SOURCE -shared -fPIC -o hang.so "$TOP/tests/fake/hang.c" -ldl
soon() { timeout 60 jobctl "$@"; }
hangs='has not answered for'

printf 'name: plain\nrun: echo hello\nresources: {cpus: 1}\n' >plain.yaml
LD_PRELOAD=$WORK/hang.so FAKE_HANG=/state/jobs/1:$WORK/hang jobctl daemon --detach

for _ in 1 2; do jobctl submit -q plain.yaml; done
code 0 soon wait 1-2

# Requests that wait: the sentence comes; twenty clients more do not use up the threads.
touch hang
for k in $(seq 20); do
    soon logs 1 >"logs.$k" 2>&1 &
done
post() { curl -s --max-time 60 --unix-socket "$JOBCTL_HOME/jobctl.sock" "http://jobctl/v1/$1" -d @-; }
mkdir "$jobs/1/drive"
post jobs >post 2>&1 <<<"{\"spec\": \"run: pwd\nworkdir: $jobs/1/drive\n\", \"cwd\": \"$WORK\"}" &
soon adopt --yes "$jobs/1/drive" >adopt 2>&1 &
soon remove 1 >remove 2>&1 &
soon prune --dry-run --older-than 0s >prune 2>&1 &
soon show 1 --report "$WORK/1.tgz" >report 2>&1 &
code 0 soon status -a
code 0 soon show 2
code 0 soon logs 2
has hello out
jobctl submit -q plain.yaml
code 0 soon wait 3
code 4 soon logs 1
has "reading logs in $jobs/1/1 $hangs" err
code 0 soon show 1
has "$hangs" out
code 0 soon show 1 --json
json "'$jobs/1' in o['files'] and o['job']['result'] == 'succeeded'"
wait
for k in $(seq 20); do grep "reading logs in $jobs/1/1 $hangs" "logs.$k"; done
grep "looking for the files of a spec in $WORK $hangs" post
grep "counting the files in $jobs/1 $hangs" remove
grep "sizes are not known: counting the files in $jobs $hangs" prune
grep 'job 1 (plain)' prune
grep "reading the mirror $jobs/1/drive $hangs" adopt
tar xzf 1.tgz
grep "$hangs" job-1/files.txt
code 0 soon logs 3
has hello out

# It answers again.
rm hang
wait_for "the log" says hello soon logs 1
code 0 soon show 1
lacks "$hangs" out

# What hangs keeps neither a daemon that is to stop nor the next one.
touch hang
soon logs 1 >last 2>&1 &
wait_for "a call that hangs" says "reading logs in $jobs/1/1 $hangs" cat last
pid=$(daemon_answers)
kill "$pid"
wait_for "the end of the daemon" ended "$pid"
rm hang
LD_PRELOAD=$WORK/hang.so FAKE_HANG=/state/jobs/4:$WORK/hang jobctl daemon --detach
code 0 soon remove 1
wait_for "the end of its directory" gone "$jobs/1"

# An agent dies where nothing can be found out about it: the daemon goes on, and then does what it always does.
printf 'name: sleeps\nrun: exec sleep 600\nresources: {cpus: 1}\n' >sleeps.yaml
jobctl submit -q sleeps.yaml
wait_event 4 kind=generation_started >/dev/null
agent=$(agent_pid 4 1)
touch hang
kill -9 "$agent"
wait_for "the agent's end" ended "$agent"
wait_for "what job 4 waits for" says "looking for the agent in $jobs/4/1 $hangs" soon status
code 0 soon submit --wait -q plain.yaml
rm hang
wait_event 4 kind=agent_lost >/dev/null
code 0 soon cancel --now 4
soon wait 4 || [ $? = 3 ]
