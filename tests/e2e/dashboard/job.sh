# SPDX-License-Identifier: Apache-2.0
# The pages of a job, of a comparison and of machines in Chromium: story and zoom, logs of two ranks, samples, an edited
# spec with mistakes by line; each page with a screen reader, a phone and a keyboard; hostile text stays text.
. "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/browser.sh"
cd "$WORK"
cat >train.yaml <<YAML
name: sana-icons
train:
  model: {preset: tiny}
  data: {path: $TOP/templates/data/tango-icons}
  batch: {global: 4}
  steps: 300
  sample: {before: true, after: true, count: 4}
resources: {gpus: 0, cpus: 1}
checkpoint: {every: 60 steps, keep: 2}
YAML
cat >two.yaml <<YAML
name: two-ranks
run: |
  [ "\$RANK" = 0 ] || { echo '<script>window.hacked = 1</script> WARNING from rank 1'; [ -e "$WORK/again" ] || { sleep 1.5; touch "$WORK/again"; exit 3; }; }
  for i in \$(seq 40); do echo "step \$i/2000 loss 0.\$((90 - i)) lr 0.001"; sleep 0.1; done; exec sleep 600
resources: {gpus: 0, ranks: 2}
grace: 0s
retry: {backoff: 10ms..20ms}
env: {NOTE: '"><img src=x onerror=window.hacked=2>'}
YAML
code 0 jobctl submit -q --wait train.yaml
code 0 jobctl submit -q two.yaml
second() { jobctl status --json 2 | read_json holds "o['jobs'][0]['generation'] == 2 and o['jobs'][0]['step'] == 40"; }
wait_for "the second generation at step 40" second
code 0 jobctl dashboard
look dashboard_job.py "$JOBCTL_HOME/dashboard.html" "$TOP/tests/axe/axe.min.js"
code 0 jobctl cancel 2
code 0 jobctl wait 3
