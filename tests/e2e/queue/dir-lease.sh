# SPDX-License-Identifier: Apache-2.0
# Two homes and one checkpoint.dir: the second job waits for the first by name; it takes the directory from a killed
# holder at once, and from a frozen one after a silence; the frozen holder writes nothing there when it resumes.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
export JOBCTL_LEASE_MS=2000
first=$WORK/home-a second=$WORK/home-b
on() { local home=$1; shift; JOBCTL_HOME=$home "$@"; } # HOME COMMAND...
cat >wait.yaml <<YAML
run: touch $WORK/began-\$ME; until [ -e $WORK/go-\$ME ]; do sleep 0.01; done
resources: {ranks: 1, cpus: 1}
checkpoint: {dir: $WORK/shared}
retry: {backoff: 1s..2s}
YAML
cat >train.yaml <<YAML
name: sana
train:
  model: {preset: tiny}
  data: {path: $TOP/templates/data/tango-icons}
  batch: {global: 4}
  steps: 1000000
  sample: {before: false, after: false}
checkpoint: {every: 5 steps, dir: $WORK/shared}
retry: {backoff: 1s..2s}
YAML
job() { on "$1" jobctl submit -q wait.yaml --set "name=$2" --set "env.ME=$2"; } # HOME NAME
lease() { field "$@" <shared/lease.json; }
saved() { ls shared | grep -q '^step-'; }

for home in "$first" "$second"; do
    on "$home" jobctl daemon --detach # one that is started by itself would not take the limit over
done

# Refused by the name of the one that has it, again and again, until it lets go.
job "$first" owner
wait_for "the owner begins" test -e began-owner
job "$second" guest
says_who() { on "$second" jobctl why guest | grep -F "job 1 (owner) on $(hostname), home $first writes into $WORK/shared"; }
wait_for "the guest says for whom it waits" says_who
on "$second" wait_event guest kind=retry >/dev/null
[ "$(on "$second" last_event guest kind=attempt_ended cause)" = dir_in_use ]
gone began-guest
touch go-owner
on "$first" jobctl wait owner --timeout 60
wait_for "the guest begins" test -e began-guest
touch go-guest
on "$second" jobctl wait guest --timeout 60
lease released | grep -qx true

# Everything of the first home is killed: what is proven dead is not waited for.
on "$first" jobctl submit -q train.yaml
wait_for "a checkpoint" saved
run=$first/jobs/2/1
victims="$(on "$first" daemon_pid) $(field pid <"$run/agent.json") $(on "$first" last_event 2 kind=generation_started pids)"
[ "$(lease name)" = sana ]
kill -9 $victims
wait_for "all of the first home ends" ended $victims
job "$second" heir
wait_for "the heir begins" test -e began-heir
[ "$(on "$second" last_event heir kind=placed attempt)" = 1 ]
on "$second" jobctl logs --events heir >out
lacks "unless the former holder shows activity" out
touch go-heir
on "$second" jobctl wait heir --timeout 60

# Agent and ranks stop in the middle of training. The other waits for a sign of life, then takes the directory.
on "$first" jobctl daemon --detach
on "$first" jobctl cancel 2 --now >/dev/null
on "$first" jobctl wait 2 --timeout 60 || true
rm -rf shared
frozen_id=$(on "$first" jobctl submit -q train.yaml)
wait_for "a checkpoint" saved
agent=$(field pid <"$first/jobs/$frozen_id/1/agent.json")
frozen="$agent $(on "$first" last_event "$frozen_id" kind=generation_started pids)"
kill -STOP $frozen
job "$second" late
wait_for "the late one begins" test -e began-late
on "$second" jobctl logs --events late >out
has "job $frozen_id (sana) on $(hostname), home $first wrote into $WORK/shared last" out
written() { find shared -path '*/step-*' -o -path '*quarantine*' -o -name '.tmp-*' | sort; }
written >before
kill -CONT $frozen
wait_for "the frozen job's attempt ends" ended $frozen
[ "$(on "$first" last_event "$frozen_id" kind=attempt_ended cause)" = dir_in_use ]
on "$first" jobctl logs --events "$frozen_id" >out
has "was taken over by job 3 (late) on $(hostname), home $second" out
written | cmp before -
on "$first" jobctl cancel "$frozen_id" >/dev/null
touch go-late
on "$second" jobctl wait late --timeout 60
for home in "$first" "$second"; do
    kill "$(on "$home" daemon_pid)"
done
