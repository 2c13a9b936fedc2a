# SPDX-License-Identifier: Apache-2.0
# Hosts of launch: ssh with too few healthy GPUs (a stand-in for NVML) end no job that another host can run: the host is
# named and excluded, the job goes to the next one, or waits for it; without one it ends, and the reason names the host
# that came nearest. The same after an ECC error in the middle of a run.
. "$TOP/tests/hosts.sh"
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
mkdir lib
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o lib/libnvidia-ml.so.1 "$TOP/tests/fake/nvml.c"
hosts_up ga gb gc
give() { # HOST GPUS: what it has from now on (tests/fake/nvml.c)
    host_down "$1"
    HOST_ENV="LD_LIBRARY_PATH=$WORK/lib FAKE_GPUS=$2"
    host_up "$1"
}
give ga a!
give gb bc
give gc !
cat >job.yaml <<YAML
launch: ssh
hosts: [gc, ga, gb]
resources: {gpus: 2, cpus: 1}
retry: {backoff: 10ms..20ms}
run: |
  echo "step 1 loss 0.1"
  eval "\$DO"
  until [ ! -e "$WORK/hold" ]; do sleep 0.02; done
YAML

# The next hosts are tried, and that is not a failure of the job.
code 0 jobctl submit job.yaml --wait --set env.DO=true --set retry.max=0
code 0 jobctl why last
has 'ga has 1 of 2 GPUs: GPU 1 is not used: no handle: GPU is lost' out
[ "$(jobctl show last --json | field attempts.-1.node)" = gb ]

# One that has them is in use: the job waits for it.
touch hold
trap 'rm -f "$WORK/hold"; hosts_down' EXIT
code 0 jobctl submit -q job.yaml --set name=first --set env.DO=true
wait_event first kind=generation_started
code 0 jobctl submit -q job.yaml --set name=second --set env.DO=true
wait_for "the second waits" says 'waiting for a host with 2 free GPUs: job 2 is using one' jobctl why second
rm hold
code 0 jobctl wait first second

# No host can run it.
code 1 jobctl submit job.yaml --wait --set env.DO=true --set hosts=[gc,ga]
code 0 jobctl why last
has 'no host of the job has 2 healthy GPUs; nearest: ga has 1 of 2 GPUs: GPU 1 is not used: no handle: GPU is lost' out

# A GPU fails in the middle of a run.
give ga de
code 0 jobctl nodes resume ga
code 0 jobctl submit job.yaml --wait --set hosts=[ga,gb] --set name=ecc \
    --set 'env.DO=case $HOME$RANK in *ga1) echo uncorrectable ECC error encountered; exit 1 ;; esac'
[ "$(jobctl show ecc --json | field attempts.-1.node)" = gb ]
