# SPDX-License-Identifier: Apache-2.0
# Messages about jobs: a webhook that fails twice gets each message once, also across a kill -9 of the daemon; a hanging
# one stops nothing; a command; secrets stay out of store and log; mistakes in config.yaml and in a spec are named.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
export XDG_CONFIG_HOME=$WORK/config JOBCTL_TEST_NOTIFY_FASTER=100
config=$XDG_CONFIG_HOME/jobctl/config.yaml
mkdir -p config/jobctl got
python3 -IS "$TOP/tests/e2e/notify_server.py" got 500 503 &
server=$!
trap 'kill $server' EXIT
wait_for "the server" test -e got/ports
read -r web smtp <got/ports
printf 'HOOK=http://127.0.0.1:%s/hook\nHANG=http://127.0.0.1:%s/hang\nother=1\n' "$web" "$web" >config/jobctl/secrets
chmod 600 config/jobctl/secrets
cat >"$config" <<'YAML'
notify:
  hook: {webhook: "${HOOK}", on: [done, failed]}
  file: {command: 'cat >text; env | grep ^JOBCTL_NOTIFY | sort >env', on: [failed]}
YAML
sed -i "s|>text|>$WORK/text|; s|>env|>$WORK/env|" "$config"
start() { # with the settings of tests, which a daemon that a command starts does not get
    jobctl daemon --detach
}
got() { [ "$(wc -l <"got/$1")" = "$2" ]; }
waits() { [ "$(sqlite3 "$JOBCTL_HOME/jobs.db" 'select count(*) from notices')" = "$1" ]; }
printf 'name: good\nrun: "true"\n' >good.yaml
printf 'name: bad\nrun: exit 3\nretry: {max: 0}\n' >bad.yaml

# 500, 503, then taken: once.
start
code 1 jobctl submit -q --wait bad.yaml
wait_for "the message after two failures" got http 3
wait_for "nothing is left" waits 0
read_json each <got/http status >statuses
[ "$(cat statuses)" = "500
503
200" ]
[ "$(tail -n 1 got/http | field body.event body.jobs.0.name body.jobs.0.job body.version)" = "failed bad 1 1" ] ||
    { cat got/http; exit 1; }
read_json each body.id <got/http | sort -u >ids
[ "$(wc -l <ids)" = 1 ]
wait_for "the command" test -s env
grep -q '^JOBCTL_NOTIFY_EVENT=failed$' env
grep -q '^JOBCTL_NOTIFY_JOB=1$' env
[ "$(head -n 1 text)" = "jobctl: job 1 (bad) failed on $(hostname)" ]
[ "$(tail -n 1 text)" = "To see more: jobctl why 1" ]

# Nobody is told: by the spec, and by a cancel.
code 0 jobctl submit -q --wait good.yaml --set notify.to=[]
printf 'run: sleep 600\n' >long.yaml
code 0 jobctl submit -q long.yaml
code 0 jobctl cancel 3
code 3 jobctl wait 3
waits 0

# The daemon is killed while the webhook does not answer: the next one sends it. All else goes on meanwhile.
sed -i 's/{HOOK}/{HANG}/' "$config"
code 0 jobctl submit -q --wait good.yaml
wait_for "the webhook hangs" test -s got/hung
code 0 jobctl status
waits 1
kill -9 "$(daemon_answers)"
sed -i 's/{HANG}/{HOOK}/' "$config"
start
wait_for "the message of the next daemon" got http 4
[ "$(tail -n 1 got/http | field body.event body.jobs.0.job)" = "done 4" ]
wait_for "nothing is left" waits 0

# A target that cannot be reached is told once, and again when it works.
sed -i 's|"${HOOK}"|"http://127.0.0.1:1/T0KEN"|' "$config"
code 0 jobctl submit -q --wait good.yaml
wait_for "the problem in status" says 'Messages are not delivered to hook: the webhook does not answer' jobctl status
jobctl doctor >doctor || true # what it thinks of this machine is not asked here
has 'warn     notify' doctor
has 'hook (webhook), which cannot be reached: the webhook does' doctor
code 1 jobctl notify test
has 'hook: not sent: the webhook does not answer' out
has 'file: the message was sent' out
sed -i 's|"http://127.0.0.1:1/T0KEN"|"${HOOK}"|' "$config"
wait_for "nothing is left" waits 0
code 0 jobctl status
lacks 'not delivered' err
log=$JOBCTL_HOME/daemon.log
[ "$(grep -c 'cannot be sent to notify target hook' "$log")" = 2 ]
[ "$(grep -c 'notify target hook works again' "$log")" = 2 ]

# No secret and no URL in the store or the log.
! grep -rl -e T0KEN -e "127.0.0.1:$web" "$JOBCTL_HOME" || exit 1

# Tests of targets; what cannot work is named.
code 0 jobctl notify test hook
[ "$(tail -n 1 got/http | field body.event)" = test ]
code 0 jobctl notify
has 'hook: webhook, on done, failed' out
jobctl doctor >doctor || true
has 'ok       notify' doctor
code 3 jobctl notify test nobody
has 'config.yaml has no notify target "nobody"' err
chmod 644 config/jobctl/secrets
code 1 jobctl notify test hook
has "secrets can be read or written by others: run \`chmod 600" out
chmod 600 config/jobctl/secrets
code 2 jobctl submit good.yaml --set notify.to=[hok]
has 'notify.to: unknown target "hok"; did you mean hook?' err
code 2 jobctl submit good.yaml --set notify.on=[dne]
has 'notify.on: unknown event "dne"; expected done, failed, recovering, hung, budget' err
printf 'notify:\n  a: {webhook: "https://x", fromat: slack}\n' >"$config"
code 2 jobctl notify
has "$config:2:29: notify.a: unknown key \"fromat\"; did you mean format?" err
bad() { # LINE:COLUMN SENTENCE TARGET
    printf 'notify:\n  a: %s\n' "$3" >"$config"
    code 2 jobctl notify
    has "$config:$1: notify.a: $2" err
}
bad 2:16 'webhook: expected a URL, or ${NAME} of a secret' '{webhook: ftp://x}'
bad 2:6 'expected one of webhook, email and command' '{on: [done]}'
bad 2:11 'on: expected a list of done, failed, recovering, hung, budget' '{on: [finished], command: x}'
bad 2:34 'password: expected the name of a secret, such as ${MAIL_PASSWORD}, not the password' '{email: me@x.org, password: 1234}'
bad 2:19 'format is for targets with webhook' '{command: x, format: json}'
bad 2:14 'email: expected an address such as me@example.org' '{email: "me@x.org\nBcc: you@x.org"}'
