# SPDX-License-Identifier: Apache-2.0
# cancel --now ends a job whose agent does not answer, because it is stopped or hangs: the daemon kills the agent and
# its ranks. cancel alone waits, and does not interfere with an agent that answers.
. "$TOP/tests/e2e/expect.sh"
printf 'name: %s\nresources: {gpus: 0}\nrun: |\n  echo $$ >%s/first.pid\n  exec sleep 600\n' first "$WORK" >"$WORK/first.yaml"
sed 's/first/second/g' "$WORK/first.yaml" >"$WORK/second.yaml"
code 0 jobctl submit -q "$WORK/first.yaml"
code 0 jobctl submit -q "$WORK/second.yaml"
names=("" first second)
for job in 1 2; do
    wait_for "the start of job $job" test -s "$WORK/${names[job]}.pid"
    agent[job]=$(agent_pid $job 1) rank[job]=$(cat "$WORK/${names[job]}.pid")
    kill -STOP "${agent[job]}"
done
code 0 jobctl cancel 1
code 0 jobctl cancel 1 --now
wait_for "the end of job 1" job_is 1 state done
code 0 jobctl show 1 --json
json "o['job']['result'] == 'cancelled'"
ended "${agent[1]}" "${rank[1]}"
code 0 jobctl logs --events 1
has 'its agent did not answer within 5 s of `cancel --now` and was killed' out

# A daemon that starts later finds it as well.
code 0 jobctl cancel 2 --now
stop_daemon KILL
code 0 jobctl status
wait_for "the end of job 2" job_is 2 result cancelled
ended "${agent[2]}" "${rank[2]}"
