# SPDX-License-Identifier: Apache-2.0
# A sweep with launch: ssh on two hosts: each host runs one member at a time, which takes all its CPU slots; all run the
# submitted code, also after a kill -9 of the daemon; failed members are retried, a cancel ends the running ones.
. "$TOP/tests/hosts.sh"
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
hosts_up one two
mkdir w
echo 'echo "value $A of $JOBCTL_ARRAY_INDEX"' >w/say.sh
cat >w/sweep.yaml <<YAML
launch: ssh
hosts: [one, two]
snapshot: true
resources: {gpus: 0, ranks: 1, cpus: $(nproc)}
retry: {max: 0}
run: |
  . ./say.sh
  echo "\$A \$HOME" >>"$WORK/marks"
  until [ -e "$WORK/go" ]; do sleep 0.05; done
  [ "\$A" != 3 ] || [ -e "$WORK/pass" ]
sweep: {env.A: 1-4}
YAML
lines() { [ -e marks ] && [ "$(wc -l <marks)" = "$1" ]; }
marks() { cut -d ' ' -f 1 marks | sort | tr '\n' ' '; }
code 0 jobctl submit -q w/sweep.yaml
echo 'echo changed' >w/say.sh
wait_for "two members run" lines 2
[ "$(marks)" = "1 2 " ]
[ "$(cut -d ' ' -f 2 marks | sort | tr '\n' ' ')" = "$WORK/one $WORK/two " ]
stop_daemon KILL
touch go
code 1 jobctl wait 1
has '3 succeeded, 1 failed' out
[ "$(marks)" = "1 2 3 4 " ]
for i in 0 1 3; do
    code 0 jobctl logs 1_$i
    has "value $((i + 1)) of $i" out
done

# Only the one that failed, with the same code; its sweep's members stay.
touch pass
code 0 jobctl retry -q 1
retried=$(cat out)
code 0 jobctl wait "$retried"
[ "$(marks)" = "1 2 3 3 4 " ]
code 0 jobctl logs "${retried}_2"
has 'value 3 of 2' out

# A cancel ends those that run, and no further one starts.
rm go
: >marks
code 0 jobctl submit -q w/sweep.yaml
last=$(cat out)
wait_for "two members run" lines 2
code 0 jobctl cancel -q "$last" --now
code 3 jobctl wait "$last"
[ "$(marks)" = "1 2 " ]
code 0 jobctl status "$last" --json
json 'o["jobs"][0]["members"] == {"count": 4, "running": 0, "succeeded": 0, "failed": 0, "cancelled": 2, "not_started": 2}'
