# SPDX-License-Identifier: Apache-2.0
# jobctl nodes: groups of hosts in config.yaml are checked and resolved at submit; a drained node gets no job, the
# reason is shown, and it stays drained when the controller is killed; add and remove.
. "$TOP/tests/e2e/expect.sh"
[ -x "$BIN/jobctl-ssh" ] || { echo "built without libssh: no jobctl-ssh"; exit 77; }
cd "$WORK"
export XDG_CONFIG_HOME=$WORK/config HOME=$WORK
mkdir .ssh
printf 'Host *\n  HostName 127.0.0.1\n  Port 1\n' >.ssh/config     # every name has an address
mkdir -p config/jobctl
config=$XDG_CONFIG_HOME/jobctl/config.yaml
cat >config/jobctl/config.yaml <<'YAML'
groups:
  pair: [alpha, beta]
  more: [beta, gamma]
YAML
cat >job.yaml <<'YAML'
launch: ssh
hosts: [pair, delta]
resources: {gpus: 0}
run: "true"
YAML

# Groups stand for their members, in this order, each once.
code 0 jobctl submit job.yaml --dry-run --json
json "o['spec']['hosts'] == ['alpha', 'beta', 'delta']"
code 0 jobctl submit job.yaml --dry-run --json --set 'hosts=["@more", pair]'
json "o['spec']['hosts'] == ['beta', 'gamma', 'alpha']"
code 2 jobctl submit job.yaml --set 'hosts=["@pairs"]'
has 'unknown group @pairs; did you mean @pair?' err
code 0 jobctl nodes
grep -q '^beta  *new .*@pair, @more' out

# The file is checked like a spec.
wrong() { # LINE:COLUMN TEXT
    code 2 jobctl submit job.yaml --dry-run
    has "$config:$1: $2" err
}
echo 'group: {a: [b]}' >"$config"
wrong 1:1 'unknown key "group"; did you mean groups?'
printf 'groups:\n  a: [one, "two words"]\n' >"$config"
wrong 2:12 'groups.a: "two words" may contain only'
printf 'groups:\n  a: one\n' >"$config"
wrong 2:6 'groups.a: expected a list of hosts'
wrong_key() { printf '%s\n' "$1" >"$config"; shift; wrong "$@"; }
wrong_key 'host_lots: 5s' 1:1 'unknown key "host_lots"; did you mean host_lost?'
wrong_key 'colour: red' 1:1 'unknown key "colour"; valid keys are groups, host_lost, node_lost, call_address, notify, show_names_to and metrics'
wrong_key 'host_lost: 20' 1:12 'host_lost: '
wrong_key 'node_lost: 20ms' 1:12 'node_lost: "20ms" is not between 1 s and 24 h'
wrong_key 'node_lost: [1s]' 1:12 'node_lost: expected a duration, such as 30s'
printf 'groups: {a: [b\n' >"$config"
code 2 jobctl submit job.yaml --dry-run
has 'config.yaml:1:13: the bracket opened here' err
printf 'groups: {pair: [alpha, beta]}\n' >"$config"

# Drained: no job goes there, whoever asks is told why, a new controller knows it.
code 0 jobctl nodes drain @pair --reason 'new disks'
has 'alpha accepts no jobs; to undo: jobctl nodes resume alpha' out
lacks 'check its name' out
code 0 jobctl nodes drain zeta
has 'zeta accepts no jobs; to undo: jobctl nodes resume zeta (this node was not listed before: check its name)' out
code 0 jobctl nodes remove zeta --json
json "'zeta' not in [n['name'] for n in o['nodes']]"
kill -KILL "$(daemon_pid)"
code 0 jobctl nodes
grep -q '^alpha  *drained .*new disks' out
id=$(jobctl submit -q job.yaml --set 'hosts=[pair]')
why_says() { jobctl why "$1" | tr '\n' ' ' | grep -F "$2"; }
wait_for "job $id waits for alpha" why_says "$id" 'waiting for a host: alpha is drained: new disks'
code 3 jobctl nodes remove nobody
jobctl cancel "$id"
code 0 jobctl nodes resume alpha
code 0 jobctl nodes remove beta
code 0 jobctl nodes add epsilon
code 0 jobctl nodes --json
json "{n['name']: n['state'] for n in o['nodes'][1:]} == {'alpha': 'new', 'epsilon': 'new', 'beta': 'new'}"

# This machine, too.
here=$(jobctl nodes --json | field nodes.0.name)
jobctl nodes drain "$here"
printf 'run: "true"\n' >here.yaml
jobctl submit -q here.yaml >/dev/null
wait_for "the job waits for this machine" why_says last 'waiting: this machine is drained'
jobctl nodes resume "$here"
jobctl wait last
code 2 jobctl nodes frob
code 2 jobctl nodes drain
