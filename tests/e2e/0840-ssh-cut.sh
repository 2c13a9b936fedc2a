# SPDX-License-Identifier: Apache-2.0
# launch: ssh over cables that can be cut: three seconds of silence cost a job nothing, a host
# without power loses it to another one, and the login session is not what it lives on.
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
until [ "$(ticks)" -gt 0 ]; do sleep 0.05; done

# Silence, then everything that was said meanwhile, once.
host_cut gpu1
before=$(ticks)
sleep 3 # the length of the cut is what is tested
host_mend gpu1
until [ "$(ticks)" -gt $((before + 20)) ]; do sleep 0.1; done
host_drop gpu1
until [ "$(ticks)" -gt $((before + 40)) ]; do sleep 0.1; done
jobctl logs talk | grep '^tick' >said
seq -f 'tick %.0f' "$(wc -l <said)" | cmp - said
[ "$(jobctl events talk --json | tr '{' '\n' | grep -c '"kind": *"placed"')" = 1 ]

# No power: what the job was waiting for can be asked, then it is elsewhere.
host_off gpu1
until jobctl events talk | grep 'placed on gpu2'; do sleep 0.1; done
jobctl events talk | grep 'gpu1 has not answered for '
until jobctl logs talk 2>/dev/null | grep 'on gpu2'; do sleep 0.05; done
touch go
jobctl wait talk
jobctl nodes | grep '^gpu1 *failing'
