# SPDX-License-Identifier: Apache-2.0
# templates/jobctl.py: the examples of docs/PYTHON.md, its manual and its types; the same on a far host, by jobctl -H
# and by ssh; iterators continue across a killed daemon and broken connections, with nothing lost or duplicated; a
# submit whose connection breaks is repeated and is one job, other requests are not resent.
. "$TOP/tests/hosts.sh"
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
export PYTHONPATH=$TOP/templates PYTHONDONTWRITEBYTECODE=1 HOST_ENV="PATH=$PATH"
TMPDIR=$WORK "$TOP/tests/python_check.sh" "$BIN"
[ ! -d "$TOP/templates/__pycache__" ]

# Long output, in pieces, over what breaks.
hosts_up far
mkfifo feed
cat >far/echo.yaml <<YAML
name: echo
run: exec sed -u '/^end/q' $WORK/feed
resources: {gpus: 0, ranks: 1}
YAML
cat >follow.py <<'PY'
import json, os, sys
import jobctl

ways = {"here": {}, "jobctl": {"host": "far"},
        "ssh": {"host": "far", "ssh": ["ssh", "-T", "-F", os.environ["HOME"] + "/.ssh/config", "-o",
                                       "UserKnownHostsFile=" + os.environ["HOME"] + "/.ssh/known_hosts", "-i",
                                       os.environ["HOME"] + "/.ssh/id_ed25519", "-o", "BatchMode=yes",
                                       "-o", "ConnectTimeout=10"]}}
way, what = sys.argv[1:]
with jobctl.Client(**ways[way]) as c:
    if what == "logs":
        for line in c.logs("echo", follow=True):
            print(line, end="", flush=True)
    elif what == "events":
        for event in c.events("echo", follow=True):
            print(json.dumps(event), flush=True)
    else:
        print(c.wait("echo")["result"])
PY
exec 9<>feed
code 0 jobctl submit -q far/echo.yaml
declare -A pid
for way in here jobctl ssh; do
    for what in logs events wait; do
        python3 follow.py $way $what >$way.$what 2>$way.$what.err &
        pid[$way.$what]=$!
    done
done
all_have() { for way in here jobctl ssh; do [ "$(wc -l <$way.logs)" -ge "$1" ] || return 1; done; }
seq -f 'line %.0f' 1 20000 >&9
wait_for "the first lines" all_have 20000
wait_for "six connections" host_relays far 6
host_drop far
stop_daemon KILL
seq -f 'line %.0f' 20001 20100 >&9
wait_for "the lines after the break" all_have 20100
wait_for "six connections" host_relays far 6
host_down far
seq -f 'line %.0f' 20101 20200 >&9
host_up far
wait_for "the lines after the silence" all_have 20200
echo end >&9
for k in "${!pid[@]}"; do
    wait "${pid[$k]}" || { cat "$k.err"; exit 1; }
done
seq -f 'line %.0f' 20200 >said
echo end >>said
for way in here jobctl ssh; do
    cmp said $way.logs
    [ "$(cat $way.wait)" = succeeded ]
    cmp here.events $way.events
done
[ "$(wc -l <here.events)" = "$(events_of echo seq | wc -l)" ]

# From afar: environment, directory, secrets and errors.
cat >afar.py <<'PY'
import os
import jobctl

os.environ["TOKEN_HERE"] = "abc"
with jobctl.Client(host="far") as c:
    row = c.submit({"name": "afar", "run": "echo $PWD ${#TOKEN_HERE}", "secrets": ["TOKEN_HERE"], "resources": {"gpus": 0}})
    assert c.wait(row, timeout=60)["result"] == "succeeded"
    assert "".join(c.logs(row)) == os.environ["WORK"] + "/far 3\n", list(c.logs(row))
    assert c.submit("far/echo.yaml", dry_run=True)["name"] == "echo"
    assert c.retry("afar")["retry_of"] == row["id"]
    assert "afar" in c.why("afar") and c.nodes() and c.version()["schema"] == jobctl.SCHEMA
    for wrong, kind in ((lambda: c.job("nobody"), jobctl.NotFound), (lambda: c.job("a/b"), jobctl.NotFound),
                        (lambda: c.submit({"run": "true", "secrets": ["NOT_SET_ANYWHERE"]}), jobctl.Refused),
                        (lambda: list(c.logs("afar", attempt=7)), jobctl.NotFound),
                        (lambda: c.submit({"run": "true", "workdir": "none"}), jobctl.Refused)):
        try:
            wrong()
        except kind as error:
            print(error)
        else:
            raise AssertionError(kind)
    sleeper = c.submit({"run": "exec sleep 300", "resources": {"gpus": 0}})  # until it is cancelled
    try:
        c.wait(sleeper, timeout=0.2)
    except TimeoutError as error:
        print(error)
    c.cancel(sleeper, now=True)
    assert c.wait(sleeper)["result"] == "cancelled"
try:
    jobctl.Client(host="no-host.invalid").version()
except jobctl.Refused as error:
    print(error)
PY
code 0 python3 afar.py
has "directory $WORK/far/none does not exist" out
has 'host not found' out

# The connection ends between an order and its answer: a submit is repeated and is one job; another order is told, and
# not sent again.
cat >once.py <<'PY'
import jobctl
c = jobctl.Client(patience=20)
c.version()
send, sent, cut = jobctl._Connection.request, [], [True]
def request(self, method, path, *rest):
    sent.append(method)
    send(self, method, path, *rest)
    if method == "POST" and cut.pop():
        self.sock.shutdown(2)
jobctl._Connection.request = request
spec = {"name": "once", "run": "exec sleep 300", "resources": {"gpus": 0}}  # until it is cancelled
cut[:] = [False, True, False]  # of the check, and twice of the order, from the last
row = c.submit(spec)
assert sent.count("POST") == 3, sent
assert [job["id"] for job in c.jobs(all=True, name="once")] == [row["id"]]
cut[:] = [False] * 9
assert c.submit(spec, key="mine")["id"] == c.submit(spec, key="mine")["id"] == row["id"] + 1
try:
    c.submit({**spec, "name": "other"}, key="mine")
except jobctl.Conflict as error:
    assert "another" in str(error), error
else:
    raise AssertionError("no error")
del sent[:]
cut[:] = [True]
try:
    c.cancel(row)
except jobctl.Unavailable as error:
    assert "may have been carried out" in str(error)
else:
    raise AssertionError("no error")
assert sent == ["POST"], sent
cut[:] = [False] * 9
c.cancel("once", now=True)
PY
code 0 python3 once.py
code 0 jobctl cancel --all --yes -q
