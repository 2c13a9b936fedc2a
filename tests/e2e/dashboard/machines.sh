# SPDX-License-Identifier: Apache-2.0
# The page of machines with four GPUs of a stand-in of NVML: load, memory and temperature, who uses each, one that is
# lost, the matrix of links, by pointer and arrows, and in it what NCCL took. The load is sampled while somebody looks,
# and not otherwise; Prometheus gets the same figures. Without Chromium the answers of the daemon are checked all the same.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
mkdir lib
mkdir -m 1777 machine
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o lib/libnvidia-ml.so.1 "$TOP/tests/fake/nvml.c"
export JOBCTL_MACHINE_DIR=$WORK/machine LD_LIBRARY_PATH=$WORK/lib FAKE_NVML=$WORK/gpus
cat >gpus <<'EOF'
driver 570.86.15
cuda 12080
gpu GPU-0000aaaa-0000-0000-0000-000000000000 00000000:0a:00.0 81920 8.0 NVIDIA A100-SXM4-80GB
gpu GPU-0000bbbb-0000-0000-0000-000000000000 00000000:0b:00.0 81920 8.0 NVIDIA A100-SXM4-80GB
gpu GPU-0000cccc-0000-0000-0000-000000000000 00000000:0c:00.0 81920 8.0 NVIDIA A100-SXM4-80GB
gpu GPU-0000dddd-0000-0000-0000-000000000000 00000000:0d:00.0 81920 8.0 NVIDIA A100-SXM4-80GB
links 0 1 4
links 2 3 4
path * * 50
path 0 1 10
p2p * * 0
set 3 lost 1
set 0 busy 97
set 0 memory 40
set 0 celsius 61
set 0 milliwatts 301500
set 1 busy 12
set 1 memory 3
set 1 celsius 48
proc 2 1 61440
EOF
cat >job.yaml <<'YAML'
name: ring
retry: {max: 0}
run: |
  file=$(echo "$NCCL_DEBUG_FILE" | sed "s/%h/node1/; s/%p/$$/")
  say() { echo "node1:$$:1 [$LOCAL_RANK] NCCL INFO $*" >>"$file"; }
  say "Bootstrap : Using eth0:10.0.0.1<0>"
  say "2 coll channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per peer"
  say "Channel 00/0 : $RANK[$RANK] -> $((1 - RANK))[$((1 - RANK))] via SHM/direct/direct"
  exec sleep 600
resources: {gpus: 2}
env: {NCCL_P2P_DISABLE: "1"}
YAML
page() { curl -sS --unix-socket "$JOBCTL_HOME/jobctl.sock" "$@"; }
sampled() { page 'http://jobctl/v1/nodes?now=1' >now.json; read_json holds "(o['nodes'][0]['gpus'][0]['now'] or {}).get('load') == 97" <now.json; }
samplers() {
    local pid
    read -r _ pid <"$JOBCTL_HOME/daemon.lock"
    ps --ppid "$pid" -o args= | grep -c 'jobctl-agent gpu-load' || true
}
nobody_samples() { [ "$(samplers)" = 0 ]; }
nodes() { curl -sS --unix-socket "$JOBCTL_HOME/jobctl.sock" http://jobctl/v1/nodes >nodes.json; read_json holds "len(o['nodes'][0]['gpus']) == 4" <nodes.json; }
code 0 jobctl status
wait_for "the GPUs" nodes
read_json holds "any(p['nvlinks'] == 4 and p['a'] == 0 and p['b'] == 1 for p in o['nodes'][0]['pairs'])" <nodes.json

# Nothing is sampled until somebody asks for it, and nothing any more a while after.
read_json holds "all('now' not in g for g in o['nodes'][0]['gpus'])" <nodes.json
nobody_samples
wait_for "the load of a GPU" sampled
read_json holds "[(g['now'] or {}).get('celsius') for g in o['nodes'][0]['gpus'][:3]] == [61, 48, None]" <now.json
read_json holds "o['nodes'][0]['gpus'][2]['now']['memory_used_bytes'] == 60 << 30" <now.json
read_json holds "o['nodes'][0]['gpus'][0]['now']['watts'] == 301.5" <now.json
[ "$(samplers)" = 1 ]
wait_for "the end of the samples" nobody_samples

# Prometheus gets them in base units; an unknown figure is no sample.
scraped() { page http://jobctl/metrics >metrics; grep -q '^jobctl_gpu_utilization_ratio{.*uuid="GPU-0000aaaa-.*"} 0.97$' metrics; }
wait_for "the load in the metrics" scraped
grep -q '^jobctl_gpu_temperature_celsius{.*index="1".*} 48.0$' metrics
grep -q '^jobctl_gpu_memory_used_bytes{.*index="2".*} 64424509440.0$' metrics
grep -q '^jobctl_gpu_power_watts{.*index="0".*} 301.5$' metrics
[ "$(grep -c '^jobctl_gpu_temperature_celsius{' metrics)" = 2 ]

code 0 jobctl submit -q job.yaml
wait_event 1 "text~NCCL used SHM" >/dev/null
code 0 jobctl show 1 --json
json "o['attempts'][0]['plan']['nccl']['pairs'] == [{'a': 0, 'b': 1, 'way': 'shm', 'words': 'SHM/direct/direct'}]"
code 0 jobctl submit -q job.yaml --set name=next --set resources.cpus=2
code 0 jobctl dashboard
. "$TOP/tests/e2e/browser.sh"
look dashboard_machines.py "$JOBCTL_HOME/dashboard.html"
code 0 jobctl cancel 1 2
jobctl wait 1 --timeout 60 || true
