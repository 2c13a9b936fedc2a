# SPDX-License-Identifier: Apache-2.0
# jobctl doctor FILE with launch: ssh: all hosts at once, each row with its host; whether they reach each other, share
# checkpoint.dir and read the same data; a missing host is a row, too. Differences found before an attempt refuse it.
. "$TOP/tests/hosts.sh"
hosts_apart
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
hosts_up gpu1 gpu2
look() { # CODE ARGUMENT...: doctor, and its rows as NODE|CHECK|STATUS|SEEN
    local want=$1
    shift
    code "$want" jobctl doctor train.yaml --json "$@"
    python3 -c "
import json
for r in json.load(open('$WORK/out'))['rows']:
    print('%(node)s|%(check)s|%(status)s|%(seen)s' % r)" >rows
}
row() { grep -q -- "^$1" rows || { echo "no row '$1' in:"; cat rows; exit 1; }; }
cp -r "$TOP/templates/data/tango-icons" data
cat >train.yaml <<YAML
launch: ssh
hosts: [gpu1, gpu2]
resources: {nodes: 2, gpus: 0}
train:
  model: {preset: tiny}
  data: {path: $WORK/data, caption_words: 4, caption_channels: 32}
  batch: {global: 8}
  steps: 4
checkpoint: {dir: $WORK/new/ckpt}
YAML

look 0
for h in gpu1 gpu2; do
    row "$h|programs|ok"
    row "$h|data|ok|24 samples, 4 steps"
    row "$h|routes|ok|1 other node answers over eth0"
done
row 'all|versions|ok'
row 'all|plan|ok|2 ranks: on each of 2 nodes'
row 'all|clocks|ok|at most'
row 'all|checkpoint.dir|ok'
row 'all|files|ok|all nodes read the same data, digest xxh3:'
[ ! -e "$JOBCTL_HOME" ] && [ ! -e new ] && [ -z "$(find . -maxdepth 1 -name '.doctor*')" ]

# The plan is made from what the hosts have.
code 0 jobctl plan train.yaml
has 'rank 1 on gpu2: cpu' out
has 'data        24 samples' out
code 0 jobctl plan train.yaml --json
json "o['plan']['np'] == 2 and o['plan']['nodes'] == 2 and o['train']['samples'] == 24"

# Under the same names gpu2 has a directory of its own, with a picture less; the two do not let each other
# in; a third is not there at all.
mkdir -p own gpu2/own
cp -r data own/data && cp -r data gpu2/own/data
rm gpu2/own/data/"$(ls data | grep png | head -n 1)"
echo 'echo one' >own/run.sh
echo 'echo other' >gpu2/own/run.sh
unshare -m true 2>/dev/null || {
    echo "the same on all nodes: ok; no mount namespaces here, in which they would differ"
    exit 77
}
host_down gpu2
host_run gpu2 unshare -m sh -ec "mount --bind '$WORK/gpu2/own' '$WORK/own'
    exec $sshd -f '$WORK/gpu2.sshd' -E '$WORK/gpu2.sshd.log'"
host_run gpu2 ip route add unreachable "$(host_address gpu1)/32"
host_run gpu1 ip route add unreachable "$(host_address gpu2)/32"
printf 'Host gone\n  HostName 127.0.0.1\n  Port 1\n' | cat - "$HOME/.ssh/config" >config
mv config "$HOME/.ssh/config"
look 1 --set 'hosts=[gpu1,gpu2,gone]' --set "train.data.path=$WORK/own/data" \
    --set "checkpoint.dir=$WORK/own/ckpt"
row 'gone|reachable|fail|host gone refused the connection'
row 'gpu1|route to gpu2|fail|no connection to gpu2: 10.77.0.12, port'
row 'gpu2|route to gpu1|fail|no connection to gpu1: 10.77.0.11, port'
row "all|checkpoint.dir|fail|gpu2: a file that the first node wrote to '$WORK/own' is missing here"
row "all|files|fail|train.data.path '$WORK/own/data' differs between nodes: gpu1 has "
code 1 jobctl doctor train.yaml --set 'hosts=[gpu1,gone]' --set resources.nodes=1
grep -q '^fail     gone reachable  ' out
grep -q 'of [0-9]* checks failed' out
code 0 jobctl plan train.yaml --set 'hosts=[gone,gpu1]' --set resources.nodes=1
has 'note: gone is skipped: host gone refused the connection' out
code 4 jobctl plan train.yaml --set 'hosts=[gone,gpu1]'
has 'only 1 of 2 nodes answered: gone is skipped' err

# An attempt is refused for the same reasons, with both values.
host_run gpu2 ip route del unreachable "$(host_address gpu1)/32"
host_run gpu1 ip route del unreachable "$(host_address gpu2)/32"
code 1 jobctl submit train.yaml --wait --set "train.data.path=$WORK/own/data"
jobctl logs --events 1 | grep "gpu2: train.data.path .* gpu1 has 49 files of .*, gpu2 has 48 files of" || { jobctl logs --events 1; exit 1; }
cat >run.yaml <<YAML
launch: ssh
hosts: [gpu1, gpu2]
resources: {nodes: 2, gpus: 0}
workdir: $WORK/own
snapshot: false
run: sh run.sh
YAML
code 1 jobctl submit run.yaml --wait
jobctl logs --events 2 | grep 'gpu2: run.sh in workdir .* gpu1 has 9 bytes (.*), gpu2 has 11 bytes' || { jobctl logs --events 2; exit 1; }
code 1 jobctl doctor run.yaml
grep -q 'run.sh in workdir' out

# With a snapshot, the default, both run the code of the submit.
sed -i '/^snapshot/d' run.yaml
code 0 jobctl doctor run.yaml
code 0 jobctl submit run.yaml --wait
cmp own/run.sh gpu2/.local/state/jobctl/hosted/*-3/code/*/run.sh
[ ! -e gpu1/.local/state/jobctl/hosted/*-3/code ]
