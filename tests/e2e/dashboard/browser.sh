# SPDX-License-Identifier: Apache-2.0
# The page in Chromium: the link logs in, jobs are listed, one is opened by keyboard and shows why, a curve and its log;
# markup in logs and reasons stays text; cancel asks first; nothing violates the content policy.
. "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/browser.sh"
cd "$WORK"
cat >talks.yaml <<'YAML'
name: talks
run: |
  echo '<img src=x onerror=alert(1)><script>window.hacked = 1</script>'
  for i in 1 2 3 4 5 6 7 8; do echo "step $i/100 loss 0.$i"; sleep 0.2; done; exec sleep 600
resources: {gpus: 0}
YAML
cat >fails.yaml <<'YAML'
name: fails
run: |
  echo 'ValueError: <img src=x onerror="window.hacked = 2">' >&2; exit 7
resources: {gpus: 0}
retry: {max: 0}
YAML
code 1 jobctl submit -q --wait fails.yaml
code 0 jobctl submit -q talks.yaml
code 0 jobctl submit -q --hold --set name=waits talks.yaml
at_step_8() { jobctl status --json 2 | read_json holds "o['jobs'][0]['step'] == 8"; }
wait_for "the eighth step" at_step_8
code 0 jobctl dashboard
look dashboard_page.py "$JOBCTL_HOME/dashboard.html"
