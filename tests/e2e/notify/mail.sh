# SPDX-License-Identifier: Apache-2.0
# Messages by mail: to a mail server, and to sendmail; a password never leaves unencrypted.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
export XDG_CONFIG_HOME=$WORK/config JOBCTL_SENDMAIL=$WORK/sendmail JOBCTL_TEST_NOTIFY_FASTER=100
mkdir -p config/jobctl got
python3 -IS "$TOP/tests/e2e/notify_server.py" got &
server=$!
trap 'kill $server' EXIT
wait_for "the server" test -e got/ports
read -r web smtp <got/ports
printf '#!/bin/sh\necho "$@" >%s/arguments\ncat >%s/mail\n' "$WORK" "$WORK" >sendmail
chmod +x sendmail
cat >config/jobctl/config.yaml <<YAML
notify:
  server: {email: [a@example.org, b@example.org], from: jobs@example.org, smtp: "smtp://127.0.0.1:$smtp"}
  local: {email: me, from: jobs@example.org}
  login: {email: me, smtp: "smtp://127.0.0.1:$smtp", user: me, password: "\${WORD}"}
YAML
printf 'WORD=hunter2hunter2\n' >config/jobctl/secrets
chmod 600 config/jobctl/secrets
printf 'name: good\nrun: "true"\nnotify: {to: [server, local]}\n' >good.yaml
jobctl daemon --detach

code 0 jobctl submit -q --wait good.yaml
wait_for "the mail of the server" test -s got/smtp
wait_for "the mail of sendmail" test -s mail
field from <got/smtp | grep -F '<jobs@example.org>'
field to <got/smtp | grep -F '<a@example.org>' | grep -F '<b@example.org>'
field text <got/smtp | grep -F "Subject: jobctl: job 1 (good) succeeded on $(hostname)"
grep -F "Subject: jobctl: job 1 (good) succeeded on $(hostname)" mail
[ "$(cat arguments)" = "-i -f jobs@example.org -- me" ]

# This server has no STARTTLS.
code 1 jobctl notify test login
has 'login: not sent: the mail server' out
! grep -F hunter2 got/smtp || exit 1
printf '#!/bin/sh\ncat >/dev/null\necho "no such user" >&2\nexit 67\n' >sendmail
code 1 jobctl notify test local
has 'local: not sent: sendmail exited with code 67: no such user' out
