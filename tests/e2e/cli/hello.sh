# SPDX-License-Identifier: Apache-2.0
# One job from submit to end, checked with every command that shows jobs.
cd "$WORK"
. "$TOP/tests/e2e/expect.sh"

cat >hello.yaml <<'YAML'
resources: {cpus: 1}
run: |
  echo "hello from rank $RANK of $WORLD_SIZE in job $JOBCTL_JOB_ID"
  echo "and to stderr" >&2
YAML

# The first command starts the daemon and says nothing about it.
code 0 jobctl submit hello.yaml
has "job 1 (hello) submitted" out
empty err
code 0 jobctl wait 1 --timeout 60
has "job 1 (hello) succeeded" out

code 0 jobctl status
[ "$(wc -l <out)" = 1 ]
has "No active jobs. To include done jobs: jobctl status -a" err
code 0 jobctl status -a
has "hello" out
has "succeeded" out
code 0 jobctl logs 1
has "hello from rank 0 of 1 in job 1" out
has "and to stderr" out
code 0 jobctl logs last -n 1
[ "$(wc -l <out)" = 1 ]
code 0 jobctl why 1
has "job 1 (hello): succeeded" out
code 0 jobctl logs --events hello
has "submitted" out
has "generation_started" out
code 0 jobctl show hello
has "$JOBCTL_HOME/jobs/1" out
code 0 jobctl show 1 --spec
python3 -c 'import json; s = json.load(open("out")); assert s["name"] == "hello" and s["schema"] == 1, s'
code 0 jobctl nodes
has "CPUS FREE" out
code 0 jobctl version
has "daemon" out

# How a job ends is the exit code of wait, of submit --wait and of submit --follow.
printf 'run: exit 7\nretry: {max: 0}\nresources: {cpus: 1}\n' >fails.yaml
code 1 jobctl submit --wait fails.yaml
has "failed" out
code 1 jobctl submit --follow fails.yaml
code 1 jobctl wait last
code 0 jobctl submit --follow hello.yaml
has "hello from rank 0" out
has "succeeded" out

# The same failure again and again ends a job for good.
printf 'run: exit 7\nretry: {max: 5, backoff: 10 ms..20 ms, no_progress: 2}\nresources: {cpus: 1}\n' >again.yaml
code 93 jobctl submit --wait again.yaml
code 0 jobctl why last
has "exit" out

# setup runs once, env reaches the ranks and wins, ranks get their numbers.
cat >ranks.yaml <<'YAML'
setup: echo once >>"$WORK/setup"
env: {GREETING: "good day", OMP_NUM_THREADS: 3}
resources: {ranks: 2, cpus: 1}
run: echo "$GREETING $RANK/$WORLD_SIZE $LOCAL_RANK $OMP_NUM_THREADS $MASTER_ADDR"
YAML
code 0 jobctl submit --wait ranks.yaml
code 0 jobctl logs last --rank 1
has "good day 1/2 1 3" out
[ "$(wc -l <setup)" = 1 ]
