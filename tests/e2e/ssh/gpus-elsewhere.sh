# SPDX-License-Identifier: Apache-2.0
# GPUs of two hosts of launch: ssh, by a stand-in for NVML that only they have: while a page or Prometheus asks, the
# agents of a job on both nodes report load, memory, temperature and watts, and their sampling processes end afterwards;
# nothing is sampled if nobody asks. Without Chromium the daemon's answers are still checked.
. "$TOP/tests/hosts.sh"
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
mkdir lib
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o lib/libnvidia-ml.so.1 "$TOP/tests/fake/nvml.c"
gpus() { # LETTER BUSY: what a host has
    cat <<EOT
driver 570.86.15
cuda 12080
gpu GPU-0000$1-0000-0000-0000-000000000000 00000000:0a:00.0 81920 8.0 NVIDIA A100-SXM4-80GB
gpu GPU-0001$1-0000-0000-0000-000000000000 00000000:0b:00.0 81920 8.0 NVIDIA A100-SXM4-80GB
set 0 busy $2
set 0 memory 40
set 0 celsius 61
set 0 milliwatts 301500
set 1 busy 3
set 1 memory 0
proc 1 1 61440
EOT
}
gpus aaaa 97 >one.gpus
gpus bbbb 12 >two.gpus
hosts_up one two
for h in one two; do
    host_down $h
    HOST_ENV="LD_LIBRARY_PATH=$WORK/lib FAKE_NVML=$WORK/$h.gpus"
    host_up $h
done
page() { curl -sS --unix-socket "$JOBCTL_HOME/jobctl.sock" "$@"; }
of() { echo "next(n['gpus'] for n in o['nodes'] if n['name'] == '$1')"; }
looked() { page 'http://jobctl/v1/nodes?now=1' >now.json; read_json holds "$1" <now.json; }
samplers() { host_pids "$1" | while read -r pid; do tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null; echo; done | grep -c 'jobctl-agent gpu-load' || true; }
nobody_samples() { [ "$(samplers one)$(samplers two)" = 00 ]; }

cat >job.yaml <<'YAML'
name: far
launch: ssh
hosts: [one, two]
resources: {nodes: 2, gpus: 0}
retry: {max: 0}
run: |
  touch "$WORK/runs.$RANK"
  exec sleep 600
YAML
code 0 jobctl submit -q job.yaml --set "env.WORK=$WORK"
wait_for "rank 0 runs" test -e runs.0
wait_for "rank 1 runs" test -e runs.1

# A list without figures samples nothing; a page gets those of the leader's host and of the other one.
page http://jobctl/v1/nodes >plain.json
read_json holds "[n['gpus'] for n in o['nodes'][1:]] == [[], []]" <plain.json
nobody_samples
wait_for "the load of GPUs of host one" looked "[g['now']['load'] for g in $(of one)] == [97, 3]"
wait_for "the load of GPUs of host two" looked "[g['now']['load'] for g in $(of two)] == [12, 3]"
read_json holds "[(g['index'], g['name'], g['memory_bytes'], g['now']['celsius'], g['now']['watts']) for g in $(of one)][0] == (0, 'NVIDIA A100-SXM4-80GB', 80 << 30, 61, 301.5)" <now.json
read_json holds "[(g['now']['celsius'], g['now']['memory_used_bytes'], [p['pid'] for p in g['now']['processes']]) for g in $(of two)][1] == (None, 60 << 30, [1])" <now.json
[ "$(samplers one) $(samplers two)" = '1 1' ]
wait_for "the end of the samples" nobody_samples

# Prometheus, and after a reconnect.
scraped() { page http://jobctl/metrics >metrics; grep -q "^jobctl_gpu_utilization_ratio{node=\"two\",index=\"0\",.*} 0.12$" metrics; }
wait_for "the load in the metrics" scraped
host_drop two
wait_for "host two tells again" scraped
wait_for "the watts in the metrics" matches '^jobctl_gpu_power_watts{node="one",index="0",uuid="GPU-0000aaaa-.*} 301.5$' page http://jobctl/metrics
page http://jobctl/metrics >metrics
grep -q '^jobctl_gpu_info{node="one",index="1",uuid="GPU-0001aaaa-.*,model="NVIDIA A100-SXM4-80GB"} 1.0$' metrics
grep -q '^jobctl_gpu_lost{node="two",index="1",.*} 0.0$' metrics
[ "$(grep -c '^jobctl_gpu_temperature_celsius{' metrics)" = 2 ]

code 0 jobctl dashboard
. "$TOP/tests/e2e/browser.sh"
look dashboard_hosts.py "$JOBCTL_HOME/dashboard.html"
code 0 jobctl cancel 1
jobctl wait 1 --timeout 60 || true
