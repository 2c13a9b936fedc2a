# SPDX-License-Identifier: Apache-2.0
# The page of machines with four GPUs of a stand-in of NVML: memory, who uses each, one that is lost, and the matrix of
# links, by pointer and arrows. Without Chromium the answer of the daemon is checked all the same.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
mkdir lib
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o lib/libnvidia-ml.so.1 "$TOP/tests/fake/nvml.c"
export LD_LIBRARY_PATH=$WORK/lib FAKE_NVML=$WORK/gpus
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
EOF
nodes() { curl -sS --unix-socket "$JOBCTL_HOME/jobctl.sock" http://jobctl/v1/nodes >nodes.json; read_json holds "len(o['nodes'][0]['gpus']) == 4" <nodes.json; }
code 0 jobctl status
wait_for "the GPUs" nodes
read_json holds "any(p['nvlinks'] == 4 and p['a'] == 0 and p['b'] == 1 for p in o['nodes'][0]['pairs'])" <nodes.json
code 0 jobctl dashboard
. "$TOP/tests/e2e/browser.sh"
look dashboard_machines.py "$JOBCTL_HOME/dashboard.html"
