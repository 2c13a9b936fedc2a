# SPDX-License-Identifier: Apache-2.0
# The page of jobs that failed and hung, in Chromium: state, why, evidence, incidents on the axis of time; then all of it
# over a slow network (half a second each way, 30 KB/s): it can be used, requests do not pile up, and what happened is shown.
. "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/browser.sh"
cd "$WORK"
cat >fails.yaml <<'YAML'
name: fails
run: |
  echo "step 3/100 loss 0.5"; echo "Traceback (most recent call last):"; echo "ValueError: a tensor of another shape" >&2; exit 7
resources: {gpus: 0}
retry: {max: 0}
YAML
cat >hangs.yaml <<YAML
name: hangs
run: |
  for i in 1 2 3 4 5; do echo "step \$i/100 loss 0.\$i"; sleep 0.1; done
  [ -e "$WORK/again" ] || { touch "$WORK/again"; exec sleep 600; }
  i=6; until [ -e "$WORK/over" ]; do echo "step \$i/9999 loss 0.\$i"; i=\$((i + 1)); sleep 0.05; done
resources: {gpus: 0}
hang: {step: 1s}
retry: {backoff: 10ms..20ms}
grace: 0s
YAML
code 1 jobctl submit -q --wait fails.yaml
code 0 jobctl submit -q hangs.yaml
again() { jobctl status 2 --json | read_json holds "o['jobs'][0]['generation'] == 2 and o['jobs'][0]['step'] > 5"; }
wait_for "the second generation of the job that hung" again
code 0 jobctl dashboard
look dashboard_slow.py "$JOBCTL_HOME/dashboard.html" "$WORK/over"
code 0 jobctl wait 2 --timeout 60
