# SPDX-License-Identifier: Apache-2.0
# jobctl doctor on a healthy and a faulty machine, both replayed: rows with finding and remedy, exit code, JSON; with a
# spec also its plan, its data and the space it needs. No daemon is started. Problems found just before an attempt are
# an event of the job.
. "$TOP/tests/e2e/expect.sh"
mkdir "$WORK/lib"
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o "$WORK/lib/libnvidia-ml.so.1" "$TOP/tests/fake/nvml.c"
export LD_LIBRARY_PATH=$WORK/lib
cd "$WORK"
squeeze() { sed -i 's/  */ /g' "$WORK/out"; }     # columns are not what is tested

export FAKE_NVML=$TOP/tests/facts/hgx-h100-ib.machine
code 0 jobctl doctor; squeeze
has 'ok programs' out
has 'ok GPU 7 NVIDIA H100 80GB HBM3, 79.6 GiB, compute capability 9.0' out
has 'ok GPU pairs 28 pairs, all with peer access' out
has 'ok driver 570.86.15, for CUDA up to 12.8' out
has 'all checks passed' out
lacks 'fail' out
[ ! -e "$JOBCTL_HOME" ]

export FAKE_NVML=$TOP/tests/facts/sick-gpu.machine
code 1 jobctl doctor; squeeze
has 'warn GPU 2 NVIDIA A100-SXM4-80GB: bad memory will be retired at the next GPU reset' out
has 'fail GPU 5 no handle: GPU is lost' out
has '-> reboot the machine; if that does not help, replace the GPU' out
has '1 of ' out
code 1 jobctl doctor --json
json 'o["fail"] == 1 and o["warn"] >= 1 and [r["status"] for r in o["rows"] if r["check"] == "GPU 5"] == ["fail"]'
printf 'run: "true"\nresources: {gpus: 8}\nenv: {NCCL_SHM_DISABLE: "1"}\n' >eight.yaml
code 1 jobctl doctor eight.yaml; squeeze
has 'fail plan resources.gpus is 8, but this machine has 6 healthy GPUs' out

# NVLinks that may not be used are a fault, not a detour; a driver that does not answer is told as such.
{ cat "$TOP/tests/facts/rtx3090-bridge.machine"; echo 'p2p 0 1 4'; } >broken
FAKE_NVML=broken code 1 jobctl doctor; squeeze
has 'have NVLink but no peer access, such as GPU 0 and GPU 1 (disabled by registry)' out
echo 'hang nvmlDeviceGetMemoryInfo' >>broken
FAKE_NVML=broken JOBCTL_GPU_PROBE_MS=200 code 1 jobctl doctor; squeeze
has 'fail driver the NVIDIA driver does not respond' out

# A job: its data, the room for its checkpoints, settings that do harm.
unset FAKE_NVML LD_LIBRARY_PATH
cp "$TOP/templates/sana-icons.yaml" icons.yaml
cp -r "$TOP/templates/data" data
code 0 jobctl doctor icons.yaml; squeeze
has 'ok plan 1 rank' out
has 'ok data 24 samples, 400 steps' out
has 'ok checkpoints 2 checkpoints of 58.1 MiB each and one being written' out
for f in data/*/*.png; do echo broken >"$f"; done
code 1 jobctl doctor icons.yaml; squeeze
has 'fail data' out
code 2 jobctl doctor icons.yaml --set train.stepz=4
has 'did you mean' err

# Before an attempt: told as an event, and by why.
export LD_LIBRARY_PATH=$WORK/lib FAKE_NVML=$TOP/tests/facts/sick-gpu.machine
printf 'run: "true"\nresources: {gpus: 0}\n' >one.yaml
code 0 jobctl submit one.yaml --wait
code 0 jobctl logs --events 1
has 'GPU 5: no handle: GPU is lost' out
