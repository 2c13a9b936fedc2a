#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The GPU of a rank is busy, and so is its CPU: with an idle memory controller and idle links it spins, as NCCL does
# while it waits for a lost peer; if data is moving it works, although the rank itself sleeps. A stand-in for NVML
# provides the counters.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
mkdir lib
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o lib/libnvidia-ml.so.1 "$TOP/tests/fake/nvml.c"
export LD_LIBRARY_PATH=$WORK/lib FAKE_NVML=$WORK/gpus
machine() { # BUSY MEMORY PCIE
    printf '%s\n' 'driver 580.95.05' 'gpu GPU-a 00000000:0A:00.0 81920 8.0 NVIDIA A100 80GB PCIe' \
        "set 0 busy $1" "set 0 memory $2" "set 0 pcie $3" >gpus
}

machine 100 0 12
cat >spins.yaml <<'YAML'
resources: {gpus: 1, cpus: 1}
hang: {silent: 4s}
run: |
  if [ $JOBCTL_GENERATION = 1 ]; then while :; do :; done; fi
YAML
jobctl submit -q spins.yaml
jobctl wait 1 --timeout 120
wait_event 1 kind=hang | field text | grep 'no network traffic, GPU busy but its memory idle'

# The same traffic over its links, and it is at work.
for traffic in "100 0 900000" "95 37 0"; do
    # shellcheck disable=SC2086
    machine $traffic
    id=$(jobctl submit -q - <<'YAML'
name: works
resources: {gpus: 1, cpus: 1}
hang: {silent: 4s}
run: sleep 10
YAML
    )
    jobctl wait "$id" --timeout 120
    [ "$(events_of "$id" kind=hang | wc -l)" = 0 ]
done
