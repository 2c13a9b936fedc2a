# SPDX-License-Identifier: Apache-2.0
# Two GPUs (a stand-in for NVML), three daemons: each job gets a GPU that nobody holds; the third waits and reports who
# holds them and since when; kill -9 of agent and guardian frees no GPU while a rank computes, and that of the rank
# does. Programs outside jobctl are waited for. A job's name is shown only to the group of show_names_to.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
export JOBCTL_MACHINE_DIR=$WORK/machine LD_LIBRARY_PATH=$WORK/lib FAKE_NVML=$WORK/gpus
mkdir -m 1777 machine
mkdir lib
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o lib/libnvidia-ml.so.1 "$TOP/tests/fake/nvml.c"
two() { printf 'gpu GPU-a 0000:0a:00.0 40960 8.0 Fake A100\ngpu GPU-b 0000:0b:00.0 40960 8.0 Fake A100\n'; }
two >gpus
cat >job.yaml <<'YAML'
name: sana
resources: {gpus: 1, cpus: 0}
run: |
  [ "$RANK" != 0 ] || { echo "$$ $CUDA_VISIBLE_DEVICES" >$OUT.new; mv $OUT.new $OUT; }
  trap '' TERM
  while [ ! -e $GO ]; do sleep 0.02; done
YAML
sed -i 's/cpus: 0/cpus: 1/' job.yaml
why() { on "$1" jobctl why 1 --json | field text; } # HOME: of its job
on() { JOBCTL_HOME=$WORK/home$1 "${@:2}"; } # HOME COMMAND...
submit() { on "$1" jobctl submit -q job.yaml --set env.OUT="$WORK/out$1" --set env.GO="$WORK/go$1" "${@:2}"; }
trap 'touch "$WORK"/go{1,2,3,4}; for i in 1 2 3 4; do on "$i" stop_daemon || true; done' EXIT
[ "$(nproc)" -ge 2 ] || { echo "two CPUs are needed"; exit 77; }

submit 1
wait_for "the first has a GPU" test -s out1
touch go2 # the second one ends at once
submit 2
on 2 jobctl wait 1 --timeout 60
[ "$(awk '{ print $2 }' out1 out2 | sort | xargs)" = "0 1" ] || { cat out1 out2; exit 1; }
rm go2 out2
submit 3 --set resources.gpus=2
wait_for "the third waits" says 'waiting for 2 GPUs, 1 of 2 is free: GPU 0 is held by' why 3
why 3 | grep 'since [0-9:]* UTC (job sana)'
on 3 jobctl status | grep 'waiting for 2 GPUs'
on 1 jobctl nodes | grep ' since .*(job sana): GPU 0 and 1 CPU slot'
on 1 jobctl nodes | grep ' since .*: waits for 2 GPUs and'

# one that waits is cancelled: nothing is left of its claim
submit 2 --set resources.gpus=2
wait_for "it waits too" says 'waiting for 2 GPUs' on 2 jobctl why 2 --json
on 2 jobctl cancel 2
code 3 on 2 jobctl wait 2 --timeout 60
[ "$(find machine -name 'claim-*' | wc -l)" = 2 ]

# nothing but the rank is left of the first: it still has its GPU
agent=$(field pid <home1/jobs/1/1/agent.json)
guardian=$(sed -n 's/^PPid:\t//p' "/proc/$agent/status")
rank=$(cut -d' ' -f1 out1)
on 1 stop_daemon KILL
kill -9 "$guardian"
kill -9 "$agent"
wait_for "their end" ended "$guardian" "$agent"
alive "$rank"
! flock -n machine/gpu-GPU-a true || exit 1
why 3 | grep 'GPU 0 is held by'
kill -9 "$rank"
wait_for "the third has both" test -s out3
[ "$(cut -d' ' -f2 out3)" = 0,1 ] || { cat out3; exit 1; }
touch go3
on 3 jobctl wait 1 --timeout 60

# a program outside of jobctl
{ two; echo "proc 0 1 900"; echo "proc 1 1 900"; } >gpus.new
mv gpus.new gpus
submit 4
wait_for "it waits for programs" says 'waiting for 1 GPU, 0 of 2 are free: GPU 0 is in use by process 1' why 4
two >gpus.new
mv gpus.new gpus
: >machine/poke # any change there is a reason to look; else it looks every few seconds
wait_for "it runs" test -s out4
touch go4
on 4 jobctl wait 1 --timeout 60
[ "$(on 4 jobctl show 1 --json | field job.attempt)" = 1 ]
