# SPDX-License-Identifier: Apache-2.0
# jobctl -H HOST dashboard: the page of another machine at the same port here, until the command is stopped; no daemon
# starts here, and requests refused there are refused from here.
. "$TOP/tests/hosts.sh"
hosts_apart
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
export HOST_ENV="PATH=$PATH"
hosts_up far
export JOBCTL_HOME=$WORK/laptop
printf 'name: there\nrun: exec sleep 600\nresources: {gpus: 0}\ngrace: 0s\n' >job.yaml
code 0 jobctl -H far submit -q job.yaml
jobctl -H far dashboard --print >link 2>say &
forward=$!
trap 'kill $forward 2>/dev/null || true; wait $forward || true; hosts_down' EXIT
wait_for "the link" grep -q token link
wait_for "the sentence" grep -q 'until you stop this command' say
url=$(sed 's|/#.*||' link)
[ ! -e "$JOBCTL_HOME/jobctl.sock" ]
curl -sS "$url/" | grep -q 'type="module"'
[ "$(curl -sS -o /dev/null -w '%{http_code}' "$url/v1/jobs")" = 401 ]
[ "$(curl -sS -o /dev/null -w '%{http_code}' -H 'Host: evil.example' "$url/")" = 421 ]
curl -sS -D headers -d "{\"token\":\"$(sed 's/.*=//' link)\"}" "$url/v1/session" >session
cookie=$(sed -n 's/^Set-Cookie: \([^;]*\);.*/\1/Ip' headers)
curl -sS -b "$cookie" -H "X-Jobctl-Key: $(field key <session)" "$url/v1/jobs" | field jobs.0.name | grep -qx there
# A stream passes as it comes.
curl -sS -N -b "$cookie" -H "X-Jobctl-Key: $(field key <session)" "$url/v1/jobs/1/live" >stream 2>/dev/null &
stream=$!
wait_for "events of the job" grep -q '"kind":"placed"' stream
code 0 jobctl -H far cancel 1
wait_for "its end" grep -q '"result":"cancelled"' stream
kill $forward
wait_for "the end of the command" ended $forward
wait_for "the end of the stream" ended $stream
! curl -sS "$url/" 2>/dev/null || exit 1
[ ! -e "$JOBCTL_HOME/jobctl.sock" ]
code 0 jobctl -H far daemon stop
