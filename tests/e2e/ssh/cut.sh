# SPDX-License-Identifier: Apache-2.0
# launch: ssh over cables that can be cut: three seconds of silence cost a job nothing, a host without power loses it to
# another one, and the job does not depend on the login session.
. "$TOP/tests/hosts.sh"
hosts_apart
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
hosts_up gpu1 gpu2

cat >talk.yaml <<'YAML'
launch: ssh
hosts: [gpu1, gpu2]
resources: {gpus: 0}
run: |
  echo "generation $JOBCTL_GENERATION on $(hostname)"
  i=0
  until [ -e "$GO" ]; do i=$((i + 1)); echo "tick $i"; sleep 0.1; done
  echo done
retry: {backoff: 0.05s..0.1s}
YAML
JOBCTL_HOST_LOST_S=8 jobctl daemon --detach
jobctl submit -q talk.yaml --set name=talk --set "env.GO=$WORK/go"
ticks() { jobctl logs talk 2>/dev/null | grep -c '^tick' || true; }
ticked() { [ "$(ticks)" -gt "$1" ]; }
wait_for "a tick" ticked 0

# Silence, then everything that was said meanwhile, once.
host_cut gpu1
before=$(ticks)
sleep 3 # the length of the cut is what is tested
host_mend gpu1
wait_for "20 ticks more" ticked $((before + 20))
host_drop gpu1
wait_for "another 20 ticks" ticked $((before + 40))
jobctl logs talk | grep '^tick' >said
seq -f 'tick %.0f' "$(wc -l <said)" | cmp - said
[ "$(events_of talk kind=placed | wc -l)" = 1 ]

# No power: what the job was waiting for can be asked, then it is elsewhere.
host_off gpu1
wait_event talk kind=placed 'text~placed on gpu2' | field text
jobctl logs --events talk | grep 'gpu1 has not answered for '
wait_for "the job runs on gpu2" says 'on gpu2' jobctl logs talk
touch go
jobctl wait talk
jobctl nodes | grep '^gpu1 *failing'
