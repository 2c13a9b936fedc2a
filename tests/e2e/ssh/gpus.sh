# SPDX-License-Identifier: Apache-2.0
# A host of launch: ssh with two GPUs (a stand-in for NVML): two single-GPU jobs share it, a third one waits, also after
# a kill -9 of the daemon, and gets the GPU that becomes free; a job for all GPUs waits for the host, and so does one
# for all of its CPU slots.
. "$TOP/tests/hosts.sh"
. "$TOP/tests/e2e/expect.sh"
[ "$(nproc)" -ge 2 ] || { echo "two CPUs are needed"; exit 77; }
cd "$WORK"
mkdir lib
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o lib/libnvidia-ml.so.1 "$TOP/tests/fake/nvml.c"
hosts_up one
host_down one
HOST_ENV="LD_LIBRARY_PATH=$WORK/lib FAKE_GPUS=ab JOBCTL_MACHINE_DIR=none"
host_up one
cat >job.yaml <<YAML
launch: ssh
hosts: [one]
snapshot: false
resources: {gpus: 1, cpus: 1}
retry: {max: 0}
run: |
  [ "\$RANK" != 0 ] || echo "\$CUDA_VISIBLE_DEVICES" >"$WORK/\$JOBCTL_JOB_ID.gpu"
  until [ -e "$WORK/\$JOBCTL_JOB_ID.go" ]; do sleep 0.02; done
YAML
trap 'touch "$WORK"/{1..5}.go; hosts_down' EXIT
submit() { code 0 jobctl submit -q job.yaml "$@"; }
runs() { [ -s "$1.gpu" ]; }
why() { jobctl why "$1" --json | field text; }
submit
submit
wait_for "the first job runs" runs 1
wait_for "the second job runs beside it" runs 2
[ "$(sort 1.gpu 2.gpu | xargs)" = '0 1' ]
[ "$(jobctl status -o id,host | sed 1d | sort | xargs)" = '1 one 2 one' ]
jobctl status | grep -q ' HOST '
submit
wait_for "the third waits" says 'waiting for a host with 1 free GPU: job 2 is using one, none is free' why 3
submit --set resources.gpus=0 --set "resources.cpus=$(nproc)" --set priority=-1
wait_for "the fourth waits for slots" says 'waiting for a host: job 1 is using one, none is free' why 4
stop_daemon KILL
jobctl status >/dev/null
wait_for "it waits after the daemon's death" says 'waiting for a host with 1 free GPU: job ' why 3
for i in 1 2; do wait_event $i kind=agent_up attempt=1 >/dev/null; done
gone 3.gpu
touch 1.go
wait_for "the third runs" runs 3
cmp 1.gpu 3.gpu
submit --set resources.gpus=auto
wait_for "the fifth waits for the host" says 'waiting for a host: job 2 is using one' why 5
touch 2.go
jobctl wait 1 2
wait_for "it waits for the last one" says 'waiting for a host: job 3 is using one' why 5
gone 4.gpu
touch 3.go
wait_for "the fifth runs" runs 5
[ "$(cat 5.gpu)" = 0,1 ]
gone 4.gpu
touch 4.go 5.go
jobctl wait 4 5
