# SPDX-License-Identifier: Apache-2.0
# The page in Chromium with 10,000 finished jobs: the list appears at once, few rows exist, search and counts cover all;
# a change is shown without a request, a lost daemon is reported, and the page continues with the next one; two tabs.
. "$TOP/tests/e2e/expect.sh"
. "$TOP/tests/e2e/browser.sh"
. "$TOP/tests/e2e/many_jobs.sh"
cd "$WORK"
printf 'name: one\nrun: echo "step 5/10 loss 0.25"\nresources: {gpus: 0}\n' >one.yaml
printf 'name: grid\nrun: "true"\nresources: {gpus: 0}\nsweep: {env.LR: ["1e-3", "2e-3"]}\nenv: {LR: "0"}\n' >grid.yaml
printf 'name: live\nrun: |\n  i=0; while :; do i=$((i + 1)); echo "step $i/1000000 loss 0.5"; sleep 0.1; done\nresources: {gpus: 0}\ngrace: 0s\n' >live.yaml
code 0 jobctl submit -q --wait one.yaml
code 0 jobctl submit -q --wait grid.yaml
copy_job 1 10000
code 0 jobctl submit -q live.yaml
wait_for "it runs" job_is live state running
code 0 jobctl dashboard --port 0
look dashboard_many.py "$JOBCTL_HOME/dashboard.html" "$(job_field live id)"
code 0 jobctl cancel live
