# SPDX-License-Identifier: Apache-2.0
# launch: ssh. A job trains on another machine as it would here, with the same bits; status, logs and why report it; it
# survives the controller, a broken connection and its own agent; a silent host is given up, another one takes the job,
# and the processes left there are ended when it returns.
. "$TOP/tests/hosts.sh"
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
hosts_up one two

cat >train.yaml <<YAML
launch: ssh
hosts: [one]
resources: {gpus: 0}
env: {OMP_NUM_THREADS: "1"}
train:
  model: {preset: tiny}
  data: {path: $TOP/templates/data/tango-icons, caption_words: 4, caption_channels: 32}
  batch: {global: 4}
  steps: 40
  reproducible: true
  sample: {after: false}
checkpoint: {every: 10 steps}
retry: {backoff: 0.05s..0.1s}
YAML
digest() { tail -n 1 "$1/metrics.jsonl" | field loss; }
once() { # JOB KIND...: each event came once
    local job=$1 kind
    shift
    for kind; do
        [ "$(events_of "$job" kind="$kind" | wc -l)" = 1 ] ||
            { echo "job $job: not one event $kind"; jobctl logs --events "$job"; exit 1; }
    done
}
pid_of() { last_event "$1" kind=agent_up pid; }

# The same here and there.
jobctl submit -q train.yaml --set launch=local --set 'hosts=[]' --set name=here --wait
jobctl submit -q train.yaml --set name=there --wait
there=$(echo "$WORK"/one/.local/state/jobctl/hosted/*-2)
cmp "$JOBCTL_HOME/jobs/1/metrics.jsonl" "$there/checkpoints/metrics.jsonl" 2>/dev/null ||
    [ "$(digest "$JOBCTL_HOME/jobs/1/checkpoints")" = "$(digest "$there/checkpoints")" ]
code 0 jobctl show there --json
has '"node":"one"' out
has "hosted/" out
code 0 jobctl why there
jobctl logs --events there | grep 'placed on one'
[ "$(stat -c %a "$there")" = 700 ]

hosted=$WORK/one/.local/state/jobctl/hosted
(
    umask 077
    mkdir -p "$hosted/feed-9/1" "$hosted/feed-9/checkpoints"
    for i in 1 2 3; do mkdir -p "$WORK/one/.cache/jobctl/0000000000000000000000000000000$i/bin"; done
    for i in 1 2 3; do touch -d "$((i + 9)) days ago" "$WORK/one/.cache/jobctl/0000000000000000000000000000000$i"; done
    for f in rank0.log result; do touch -d '9 days ago' "$hosted/feed-9/1/$f"; done
    touch -d '9 days ago' "$hosted/feed-9/1"
)

# What it is told and what it shows while it runs; nothing secret in a list of processes.
cat >talk.yaml <<'YAML'
launch: ssh
hosts: [one]
resources: {gpus: 0}
secrets: [TOKEN]
run: |
  echo "generation $JOBCTL_GENERATION in $(pwd), secret of ${#TOKEN} letters"
  echo "forwarded: ${SSH_AUTH_SOCK:-no agent}, ${DISPLAY:-no display}"
  printf 'bytes \001\200\377\n'
  until [ -e "$GO" ]; do sleep 0.05; echo tick; done
  echo done
retry: {backoff: 0.05s..0.1s}
YAML
export TOKEN=very-secret-word SSH_AUTH_SOCK=$WORK/no-agent DISPLAY=:77
jobctl submit -q talk.yaml --set name=talk --set "env.GO=$WORK/go"
wait_for "job talk is heard" says tick jobctl logs talk
code 0 jobctl logs talk
has 'generation 1 in ' out
has 'secret of 16 letters' out
has 'forwarded: no agent, no display' out
find "$JOBCTL_HOME" "$WORK/one/.local/state/jobctl" \( -type f -o -type d -o -type s \) -perm /077 >open
[ ! -s open ] || { cat open; exit 1; }
nonce=$(jobctl show talk --json | field attempts.-1.nonce)
for d in /proc/[0-9]*; do { tr '\0' ' ' <"$d/cmdline"; echo; } 2>/dev/null || true; done >commands
[ ${#nonce} = 32 ]
! grep -e "$nonce" -e very-secret-word commands || exit 1
talk=$(jobctl show talk --json | field job.id)
[ "$(grep -rlF very-secret-word "$JOBCTL_HOME" "$WORK/one/.local")" = "$JOBCTL_HOME/jobs/$talk/secrets.env" ]

# Meanwhile old things there have gone: programs that three others have come after, and attempts whose
# events are here. What a job has made stays.
cache=$WORK/one/.cache/jobctl
wait_for "the oldest programs go" gone "$cache/00000000000000000000000000000003"
wait_for "the log of an old attempt goes" gone "$hosted/feed-9/1/rank0.log"
[ -x "$cache/$(jobctl-ssh digest)/bin/jobctl-agent" ]
[ -e "$cache/00000000000000000000000000000001/bin" ]
[ -e "$hosted/feed-9/1/result" ]
[ -e "$hosted/feed-9/checkpoints" ]

# Another job for all of that host waits, and says for whom.
jobctl submit -q talk.yaml --set name=next --set resources.gpus=auto --set 'secrets=[]' --set "env.GO=$WORK/go"
wait_for "job next waits for job 3" matches 'next.*waiting for a host: job 3 is using one' jobctl status
jobctl nodes | grep '^one  *busy .*job 3'

# Connections break, the controller is killed: the agent is the same, nothing is lost or told twice.
agent=$(pid_of talk)
for i in 1 2 3; do
    host_drop one
    sleep 0.3 # it may have been called again, or not yet
done
kill -KILL "$(daemon_pid)"
jobctl status >/dev/null
host_drop one
touch go
jobctl wait talk next
[ "$(pid_of talk)" = "$agent" ]
once 3 agent_up generation_started attempt_ended done
jobctl logs talk | grep -v -- '---' >log
[ "$(grep -c 'generation 1' log)" = 1 ]
[ "$(tail -n 1 log)" = done ]
rm go

# Its agent is killed: the attempt is proven gone, and the next one goes on.
jobctl submit -q talk.yaml --set name=orphan --set "env.GO=$WORK/go"
wait_for "job orphan is heard" says tick jobctl logs orphan
kill -KILL "$(pid_of orphan)"
wait_for "attempt 2 of job orphan" job_is orphan attempt 2
touch go
jobctl wait orphan
jobctl logs --events orphan | grep 'the agent of attempt 1 died'
rm go

# What must be put right first is said at once, and not tried again.
cp "$HOME/.ssh/known_hosts" known
: >"$HOME/.ssh/known_hosts"
code 1 jobctl submit talk.yaml --set name=unknown --wait
jobctl why unknown | grep 'one is not in known_hosts'
jobctl nodes | grep '^one  *failing .*one is not in known_hosts'
cp known "$HOME/.ssh/known_hosts"

# A host goes silent. The job is told so, then moves; when the host is back its stray is ended.
pid=$(daemon_pid)
kill -TERM "$pid"
wait_for "daemon $pid ends" ended "$pid"
JOBCTL_HOST_LOST_S=6 jobctl daemon --detach
jobctl nodes | grep '^one  *failing'        # remembered; and forgotten when somebody says so
jobctl nodes resume one
jobctl submit -q train.yaml --set name=moves --set 'hosts=[one,two]' --set "checkpoint.dir=$WORK/shared" \
    --set train.steps=100000 --set 'checkpoint.every=20 steps'
wait_event moves kind=checkpoint >/dev/null
agent=$(pid_of moves)
host_freeze one
wait_event moves kind=placed 'text~placed on two' | field text
jobctl logs --events moves | grep 'one has not answered for '
wait_for "job moves trains on" resumes moves
[ "$(sqlite3 "$JOBCTL_HOME/jobs.db" 'select host from orphans')" = one ]
host_thaw one
no_orphans() { [ "$(sqlite3 "$JOBCTL_HOME/jobs.db" 'select count(*) from orphans')" = 0 ]; }
wait_for "what was left on host one is ended" no_orphans
[ ! -d "/proc/$agent" ] || grep -q '^State:.Z' "/proc/$agent/status"
for p in $(host_pids one); do
    ! { tr '\0' ' ' <"/proc/$p/cmdline"; } 2>/dev/null | grep jobctl-train || exit 1
done
jobctl status | grep moves | grep running
jobctl cancel -q moves --now 2>/dev/null || jobctl cancel moves
jobctl wait moves || [ $? = 3 ]
