# SPDX-License-Identifier: Apache-2.0
# A node of a real Slurm with too few healthy GPUs (a stand-in for NVML, with other GPUs on each node) ends no job that
# another node can run: the node is named and excluded. When Slurm has no other one, the reason names the node that came
# nearest.
NODES=3
. "$TOP/tests/slurm/open.sh"
scontrol show node node1 | grep -q 'Gres=gpu' || { echo "no device nodes can be made for GPUs"; exit 77; }
mkdir lib bin
${CC:-cc} -D_GNU_SOURCE -I"$TOP" -shared -fPIC -o lib/libnvidia-ml.so.1 "$TOP/tests/fake/nvml.c"
cp "$BIN"/jobctl "$BIN"/jobctl-slurm "$BIN"/jobctl-train bin/
cp "$BIN"/jobctl-agent bin/jobctl-agent.real
cat >bin/jobctl-agent <<SH
#!/bin/bash
export LD_LIBRARY_PATH=$WORK/lib FAKE_GPUS=\$(cat "$WORK/\${SLURMD_NODENAME:-none}.gpus" 2>/dev/null)
exec -a jobctl-agent "$WORK/bin/jobctl-agent.real" "\$@"
SH
chmod +x bin/jobctl-agent
export PATH=$WORK/bin:$PATH
echo 'a!' >node1.gpus
echo 'b!' >node2.gpus
echo 'cd' >node3.gpus
cat >job.yaml <<'YAML'
launch: slurm
resources: {gpus: 2, cpus: 2}
retry: {backoff: 10ms..20ms}
slurm: {partition: main, time: 10m}
run: eval "$DO"
YAML
ran_on() { [ "$(jobctl logs "$1" | grep -o 'node[0-9]' | sort -u)" = "$2" ]; }
code 0 jobctl submit job.yaml --wait --set 'env.DO=echo $SLURMD_NODENAME' || { tell_all; exit 1; }
ran_on 1 node3
code 0 jobctl logs --events 1
has 'node1 has 1 of 2 GPUs: GPU 1 is not used: no handle: GPU is lost' out

# An ECC error in the middle of a run.
echo 'ef' >node1.gpus
code 0 jobctl submit job.yaml --wait \
    --set 'env.DO=echo $SLURMD_NODENAME; case $SLURMD_NODENAME$RANK in node11) echo uncorrectable ECC error encountered; exit 1 ;; esac'
[ "$(jobctl logs 2 --attempt 1 | grep -o 'node[0-9]' | head -n 1)" = node1 ]
ran_on 2 node3

# Two of three nodes for a job on two nodes; then none is left.
code 0 jobctl submit job.yaml --wait --set resources.nodes=2 --set 'env.DO=echo $SLURMD_NODENAME'
echo 'c!' >node3.gpus
echo '!!' >node1.gpus
code 1 jobctl submit job.yaml --wait --set env.DO=true
code 0 jobctl why last
has 'no node of the job has 2 healthy GPUs; nearest: node' out
has ' has 1 of 2 GPUs: GPU 1 is not used' out
