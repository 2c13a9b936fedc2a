# SPDX-License-Identifier: Apache-2.0
# Messages about trouble while a job runs: a hanging rank, a restarting one, the last restart used up, max_duration
# reached; each is one message with its counts, and the job continues.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
export XDG_CONFIG_HOME=$WORK/config JOBCTL_TEST_NOTIFY_FASTER=20
mkdir -p config/jobctl got
python3 -IS "$TOP/tests/e2e/notify_server.py" got &
server=$!
trap 'kill $server' EXIT
wait_for "the server" test -e got/ports
read -r web _ <got/ports
cat >config/jobctl/config.yaml <<YAML
notify:
  hook: {webhook: "http://127.0.0.1:$web/hook", on: [hung, recovering, budget]}
YAML
jobctl daemon --detach # with the settings of tests

# What the first generation does is given; the second talks until it may end.
trouble() { # NAME WHAT KEYS
    cat >"$1.yaml" <<YAML
name: $1
run: |
  [ "\$JOBCTL_GENERATION" != 1 ] || { $2; }
  until [ -e $WORK/end ]; do echo alive; sleep 0.05; done
resources: {gpus: 0, ranks: 1, cpus: 1}
retry: {backoff: 10ms..10ms${3:-}}
${4:-}
YAML
    code 0 jobctl submit -q "$1.yaml"
}
messages() { grep -s "\"name\": \"$1\"" got/http; } # about the job NAME
# told NAME EVENT HANGS TEXT: its only message
told() {
    wait_for "the message about $1" messages "$1" >/dev/null
    [ "$(messages "$1" | field body.event body.jobs.0.hangs)" = "$2 $3" ] || { cat got/http; exit 1; }
    messages "$1" | field body.text | grep -qF -- "$4" || { cat got/http; exit 1; }
}
trouble hangs 'exec sleep 600' '' 'hang: {silent: 1s}' # until it is killed as hanging
told hangs hung 1 'none of its processes has shown a sign of life'
trouble fails 'exit 3' ', max: 10'
told fails recovering 0 'rank 0 exited with code 3'
touch end
code 0 jobctl wait -q hangs fails
rm end
trouble used 'exit 3' ', max: 1'
told used budget 0 'no retries are left'
trouble late : '' 'max_duration: 1s'
told late budget 0 'max_duration'
touch end
code 0 jobctl wait -q used
