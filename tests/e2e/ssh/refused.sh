# SPDX-License-Identifier: Apache-2.0
# launch: ssh with a host that refuses the connection: the next host in the list is tried at once; if there is none, the
# job waits and reports for what, its followers see a line every ten seconds, and it runs when the host is back. No
# attempt counts as a failure. A host that accepts no key is skipped as fast.
. "$TOP/tests/hosts.sh"
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
hosts_up one two
printf '%s\n' 'Host away gone' '  HostName 127.0.0.1' '  Port 1' | cat - .ssh/config >config
cp config .ssh/config
printf '%s\n' 'launch: ssh' 'hosts: [away, one]' 'resources: {gpus: 0}' 'run: "true"' \
    'retry: {backoff: 0.05s..0.1s, max: 1, no_progress: 1}' >job.yaml
refused='host away refused the connection on port 1'

# One that waits for long, in its own time.
jobctl submit job.yaml --follow --set 'hosts=[gone]' --set 'retry.backoff=60s..60s' >followed 2>&1 &
follower=$!
waits=1
wait_for "job $waits waits" job_is $waits state recovering

# Another host.
code 0 jobctl submit job.yaml --wait
code 0 jobctl show last --json
json "o['job']['result'] == 'succeeded' and o['job']['attempt'] == 2"
id=$(field job.id <out)
[ "$(last_event "$id" kind=start_failed cause)" = host_unreachable ]
[ "$(last_event "$id" kind=start_failed text)" = "$refused" ]
[ "$(last_event "$id" kind=retry delay_ms)" = 0 ]
jobctl nodes | grep "^away  *failing .*$refused"

# No other one: more attempts than failures are permitted, until it is there.
id=$(jobctl submit -q job.yaml --set 'hosts=[away]')
tried() { [ "$(events_of "$id" kind=start_failed cause=host_unreachable | wc -l)" -ge 4 ]; }
wait_for "four attempts of job $id" tried
says "$refused" jobctl why "$id" --json
sed "3s/.*/  Port $(sed -n 's/^Port //p' one.sshd)/" config >.ssh/config
code 0 jobctl wait "$id" --timeout 30
cp config .ssh/config

# Keys that it does not take.
host_down two
HOST_EXTRA="DenyUsers $(id -un)" host_up two
code 0 jobctl submit job.yaml --set 'hosts=[two, one]' --wait
code 0 jobctl logs --events last
has 'start_failed        two rejected the keys of ' out
has 'placed on one' out

refused='host gone refused the connection on port 1'
says "$refused; next attempt in " jobctl status
wait_for "the follower hears of it" grep "recovering  $refused; next attempt in" followed
kill "$follower"
jobctl cancel "$waits"
code 3 jobctl wait "$waits"
