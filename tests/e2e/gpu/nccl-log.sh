#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# NCCL's log of its transports is compared with what was expected of the machine: from our files, or from the ranks'
# output if the job is configured so. Its warnings count as evidence although they are not in a rank's log. A stand-in
# for NVML provides the GPUs; a script prints NCCL's messages.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
mkdir lib
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o lib/libnvidia-ml.so.1 "$TOP/tests/fake/nvml.c"
export LD_LIBRARY_PATH=$WORK/lib FAKE_NVML=$WORK/gpus
cat >gpus <<'END'
driver 580.95.05
gpu GPU-a 00000000:0A:00.0 24576 8.6 NVIDIA GeForce RTX 3090
gpu GPU-b 00000000:0B:00.0 24576 8.6 NVIDIA GeForce RTX 3090
links 0 1 4
path 0 1 20
END
cat >job.yaml <<'YAML'
retry: {max: 0}
run: |
  file=$(echo "${NCCL_DEBUG_FILE:-/dev/stdout}" | sed "s/%h/node1/; s/%p/$$/")
  say() { echo "node1:$$:1 [$LOCAL_RANK] NCCL INFO $*" >>"$file"; }
  say "Bootstrap : Using eth0:10.0.0.1<0>"
  say "2 coll channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per peer"
  say "Channel 00/0 : $RANK[$RANK] -> $((1 - RANK))[$((1 - RANK))] via $WAY"
  [ -z "$WARN" ] || { echo "node1:$$:1 [0] x.cc:1 NCCL WARN $WARN" >>"$file"; exit 1; }
  echo "$NCCL_DEBUG $NCCL_DEBUG_SUBSYS"
  until [ -e go-$JOBCTL_JOB_ID ]; do sleep 0.1; done
YAML
told() { wait_event "$1" "text~$2" | field text; } # JOB TEXT: its event

jobctl plan job.yaml --set env.WAY=P2P/CUMEM >plan
jobctl submit job.yaml --set env.WAY=P2P/CUMEM -q
told 1 'NCCL: P2P between 1 pair, 2 channels'
code 0 jobctl plan 1
has 'NCCL: as predicted: NCCL: P2P between 1 pair, 2 channels' out
has "$(tail -n 1 plan)" out     # the hash
code 0 jobctl show 1
grep -q 'NCCL  *as predicted: ' out
code 0 jobctl show 1 --json
json "o['attempts'][0]['plan']['nccl']['expected'] is True"
touch go-1
jobctl wait 1 --timeout 60
jobctl logs 1 >out
has 'INFO INIT,NET' out
lacks 'Channel' out
jobctl why 1 >out
lacks 'Slower' out

# Of the job's own will it prints to its log, and that is read.
jobctl submit job.yaml --set env.WAY=SHM/direct/direct --set env.NCCL_DEBUG=INFO \
    --set env.NCCL_P2P_DISABLE=1 -q
told 2 "expected NVLink between ranks 0 and 1, NCCL used SHM/direct/direct: the job's env sets NCCL_P2P_DISABLE=1"
code 0 jobctl status 2 --json
json "o['jobs'][0]['reason'].startswith('expected NVLink between ranks 0 and 1')"
code 0 jobctl plan 2
has 'NCCL: not as predicted: expected NVLink' out
touch go-2
jobctl wait 2 --timeout 60
jobctl why 2 >out
has 'It is slower than planned' out
has 'remove NCCL_P2P_DISABLE' out
jobctl logs 2 >out
has 'via SHM/direct/direct' out

# On several nodes each reads what is written there, and the one where it is otherwise is named.
cat >>gpus <<'END'
gpu GPU-c 00000000:0C:00.0 24576 8.6 NVIDIA GeForce RTX 3090
gpu GPU-d 00000000:0D:00.0 24576 8.6 NVIDIA GeForce RTX 3090
links 2 3 4
path 2 3 20
END
kill -KILL "$(daemon_pid)"
cat >nodes.yaml <<'YAML'
resources: {nodes: 2, gpus: 2, cpus: 1}
retry: {max: 0}
run: |
  file=$(echo "$NCCL_DEBUG_FILE" | sed "s/%h/node1/; s/%p/$$/")
  say() { echo "node1:$$:1 [$LOCAL_RANK] NCCL INFO $*" >>"$file"; }
  [ "$NODE_RANK" = 0 ] && way=P2P/CUMEM || way=SHM/direct/direct
  say "Using network Socket"
  say "Channel 00/0 : $RANK[$RANK] -> $((RANK ^ 1))[$((RANK ^ 1))] via $way"
  until [ -e go-$JOBCTL_JOB_ID ]; do sleep 0.1; done
  [ "$RANK" != 3 ] || { echo "node1:1:1 [0] x.cc:1 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory" >>"$file"; exit 1; }
YAML
jobctl submit nodes.yaml -q
told 3 'node1: expected NVLink between ranks 2 and 3, NCCL used SHM/direct/direct'
code 0 jobctl plan 3
has 'NCCL: not as predicted: node1: expected NVLink' out
touch go-3
code 1 jobctl wait 3 --timeout 60
jobctl why 3 >out
has 'ibv_reg_mr' out

# A warning in the files decides why it failed.
jobctl submit job.yaml --set resources.gpus=2 --set env.WAY=P2P/CUMEM \
    --set 'env.WARN=Call to ibv_reg_mr failed with error Cannot allocate memory' -q
code 1 jobctl wait 4 --timeout 60
jobctl why 4 >out
has 'ibv_reg_mr' out
