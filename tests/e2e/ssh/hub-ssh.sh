# SPDX-License-Identifier: Apache-2.0
# launch: ssh with hub models: the submitter looks up the commit and downloads nothing; each host downloads into its own
# cache, once, with the hub's address from `env` and the token from `secrets`; a retry there needs no network.
. "$TOP/tests/hosts.sh"
. "$TOP/tests/e2e/hub.sh"
cd "$WORK"
hosts_up gpu1 gpu2
export HF_TOKEN=hf_aVerySecretTokenOfTests1234567890
cp -r "$TOP/templates/data/tango-icons" data
cat >job.yaml <<YAML
name: far
launch: ssh
hosts: [gpu1, gpu2]
resources: {gpus: 0, cpus: 1, ranks: 1, nodes: 2}
train:
  model: {preset: tiny}
  data: {path: data, caption_words: 4}
  batch: {global: 4}
  steps: 2
  sample: {after: false}
checkpoint: {every: 100 steps, dir: $WORK/native}
retry: {max: 2, backoff: 1s..2s}
YAML
jobctl submit -q --wait job.yaml --set launch=local --set 'hosts=[]' --set resources.nodes=1
mkdir tiny
cp native/step-00000002/model.safetensors tiny/
commit=$(add me/tiny tiny)
faults "\"token\":\"$HF_TOKEN\""

code 0 jobctl submit --dry-run job.yaml --set train.model.weights=hf://me/tiny
has 'note: HF_ENDPOINT is set here but not on the hosts, which have their own environment: list it in env' err
has 'note: HF_TOKEN is set here but not on the hosts, which have their own environment: list it in secrets' err
printf '%s\n' "env: {HF_ENDPOINT: '$HF_ENDPOINT', no_proxy: 127.0.0.1}" 'secrets: [HF_TOKEN]' >>job.yaml
code 0 jobctl submit -q job.yaml --set train.model.weights=hf://me/tiny --set "checkpoint.dir=$WORK/of-hub"
lacks 'is set here' err
has "hf://me/tiny@$commit is downloaded on each host that does not have it" err
jobctl wait 2 || { jobctl logs --events 2; jobctl logs --setup 2; exit 1; }
[ "$(jobctl show 2 --json | field spec.train.model.weights)" = "hf://me/tiny@$commit" ]
for host in gpu1 gpu2; do
    cmp tiny/model.safetensors "$host/.cache/huggingface/hub/models--me--tiny/snapshots/$commit/model.safetensors"
done
[ ! -e .cache/huggingface/hub/models--me--tiny/snapshots ]
jobctl logs 2 >out
has "/.cache/huggingface/hub/models--me--tiny/snapshots/$commit/model.safetensors" out
! grep -rlF "$HF_TOKEN" gpu1/.cache gpu2/.cache "$JOBCTL_HOME"/jobs/2/*/*.log || exit 1

# Without the hub: a retry has all of it; a model that no host has is refused by the hosts, with the command.
stop_hub
jobctl retry 2 >out
jobctl wait 3 || { jobctl logs --events 3; exit 1; }
code 0 jobctl submit -q job.yaml --set "train.model.weights=hf://me/other@$commit" --set "checkpoint.dir=$WORK/none" \
    --set retry.max=0
code 1 jobctl wait 4
jobctl why 4 >out
has 'network' out
