# SPDX-License-Identifier: Apache-2.0
# Four GPUs (a stand-in for NVML), one controller, no machine-wide leases: four single-GPU jobs run at once, each on its
# own GPU; a fifth reports who holds the GPUs, a job for all GPUs waits for each; a CPU job runs at the same time. kill
# -9 of the daemon gives no GPU to two jobs, and a rank that outlives agent and guardian keeps its GPU. A sweep also
# runs in parallel. tests/fake/cpus.c simulates eight CPU slots.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
mkdir lib
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o lib/libnvidia-ml.so.1 "$TOP/tests/fake/nvml.c"
${CC:-cc} -D_GNU_SOURCE -shared -fPIC -o lib/cpus.so "$TOP/tests/fake/cpus.c"
export LD_LIBRARY_PATH=$WORK/lib LD_PRELOAD=$WORK/lib/cpus.so FAKE_CPUS=8 FAKE_GPUS=abcd
cat >job.yaml <<YAML
resources: {gpus: 1, cpus: 1}
retry: {max: 0}
run: |
  trap '' TERM
  [ "\$RANK" != 0 ] || echo "\$CUDA_VISIBLE_DEVICES \$\$" >"$WORK/\$JOBCTL_JOB_ID.gpu"
  until [ -e "$WORK/\$JOBCTL_JOB_ID.go" ]; do sleep 0.02; done
YAML
trap 'touch "$WORK"/{1..17}.go' EXIT
submit() { code 0 jobctl submit -q job.yaml "$@"; }
running() { for id; do [ -s "$id.gpu" ] || return 1; done; }
gpu_of() { cut -d' ' -f1 "$1.gpu"; }
gpus_of() { for id; do gpu_of "$id"; done | sort | xargs; }
why() { jobctl why "$1" --json | field text; }
leased() { ! flock -n "$JOBCTL_HOME/gpus/gpu-GPU-$(tr 0-3 a-d <<<"$1")" true; }

for _ in 1 2 3 4; do submit; done
wait_for "four jobs run at once" running 1 2 3 4
[ "$(gpus_of 1 2 3 4)" = '0 1 2 3' ]
submit
submit --set resources.gpus=auto
submit --set resources.gpus=0
wait_for "the CPU job runs beside them" running 7
touch 7.go
jobctl wait 7
why 5 | grep -F 'needs 1 GPU, none free (4 in use by jobs 1-4)'
why 6 | grep -F '1 job ahead, the first is job 5'

# Who has each GPU, the queue behind, and the GPUs of each job.
code 0 jobctl nodes
for id in 1 2 3 4; do has "job $id (job)" out; done
[ "$(sed -n '/^The queue:$/,$p' out | grep -c '^  job [56] (job): ')" = 2 ]
code 0 jobctl status -o id,gpus,host
[ "$(sed '1d' out | awk '$1 < 5 { print $2, $3 }' | sort | xargs)" = '0 - 1 - 2 - 3 -' ]
code 0 jobctl status
has ' GPUS ' out
lacks ' HOST ' out

# The daemon is killed, in the middle: the same four hold the GPUs, and the queue says the same.
stop_daemon KILL
wait_for "the queue is counted again" says 'needs 1 GPU, none free (4 in use by jobs 1-4)' why 5
[ "$(jobctl nodes --json | field nodes.0.gpus_free)" = 0 ]
! running 5 || exit 1
gone 6.gpu
touch 2.go
wait_for "the fifth runs" running 5
[ "$(gpu_of 5)" = "$(gpu_of 2)" ]
wait_for "the sixth waits for all" says 'needs all GPUs, none free (4 in use by jobs 1, 3-5)' why 6
touch 1.go 3.go
jobctl wait 1 2 3
wait_for "the sixth waits for the rest" says 'needs all GPUs, 2 free (2 in use by jobs 4-5)' why 6
why 6 | grep -F 'to use them: jobctl edit 6 --set resources.gpus=2'
submit --set resources.gpus=0 --set resources.cpus=7 --set priority=1
wait_for "the eighth waits for slots" says 'needs 7 CPU slots, 6 free (2 in use by jobs 4-5)' why 8
jobctl cancel -q 8

# Agent, guardian and daemon are killed: while the rank computes its GPU is its own.
agent=$(agent_pid 4 1)
guardian=$(sed -n 's/^PPid:\t//p' "/proc/$agent/status")
rank=$(cut -d' ' -f2 4.gpu)
stop_daemon KILL
kill -9 "$guardian"
kill -9 "$agent"
wait_for "their end" ended "$guardian" "$agent"
alive "$rank"
leased "$(gpu_of 4)"
jobctl status >/dev/null
code 1 jobctl wait 4
ended "$rank"
touch 5.go
wait_for "the sixth has all" running 6
[ "$(gpu_of 6 | tr , '\n' | sort | xargs)" = '0 1 2 3' ]
touch 6.go
jobctl wait 5 6

# Members of a sweep.
sed 's/^run:/sweep: {env.LR: [1, 2, 3, 4]}\nrun:/' job.yaml >sweep.yaml
code 0 jobctl submit -q sweep.yaml
wait_for "all members run at once" running 10 11 12 13
[ "$(gpus_of 10 11 12 13)" = '0 1 2 3' ]
touch 10.go 11.go 12.go 13.go
jobctl wait 9

# What CUDA_VISIBLE_DEVICES hides is named, and nobody waits for CPU slots that nobody asked for.
export FAKE_CPUS=2
stop_daemon
CUDA_VISIBLE_DEVICES=3 code 3 jobctl submit job.yaml --set resources.gpus=2
has 'resources.gpus is 2, but CUDA_VISIBLE_DEVICES=3 in the environment hides 3 of the 4 usable GPUs of this machine' err
CUDA_VISIBLE_DEVICES=1,3 code 0 jobctl run -g auto -- sh -c 'echo "has $CUDA_VISIBLE_DEVICES"'
has 'has 1,3' out

# Each slice of a divided GPU is a device: two jobs run at once, each on its own slice, and the third waits.
export FAKE_CPUS=8 FAKE_NVML=$TOP/tests/facts/mig-slices.machine
stop_daemon
submit --set resources.gpus=one
submit --set resources.gpus=one
submit --set resources.gpus=one
wait_for "two jobs run on slices" running 15 16
[ "$(gpus_of 15 16)" = 'MIG-5c8f0001-1111-5000-8000-000000000001 MIG-5c8f0002-1111-5000-8000-000000000002' ]
why 17 | grep -F 'needs 1 GPU, none free (2 in use by jobs 15-16)'
code 0 jobctl nodes
has 'slice MIG-5c8f0001' out
touch {15..17}.go
jobctl wait 15 16 17
