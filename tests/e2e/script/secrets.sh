# SPDX-License-Identifier: Apache-2.0
# A job prints secrets, its own and of known formats, raw and encoded, and fails: they are in its log and nowhere else,
# neither in stored files (database, daemon.log, agent.log, spool) nor in displayed text (why, events, show, report).
. "$TOP/tests/e2e/events.sh"

# Nothing here may look like a secret to a scanner: random letters behind a prefix.
letters() { tr -dc 'a-zA-Z0-9' </dev/urandom | head -c "$1" || true; }
export SAUCE="tab\"as$(letters 8)\\co 'and'/$(letters 8)"
quoted=$(letters 12) github=$(letters 34)77 url=$(letters 16) option=$(letters 16) basic=$(letters 24)7=
cat >"$WORK/say" <<END
PermissionError: login with ghp_$github failed
FATAL: could not connect to postgres://me:$url@db:5432/x
exec: train --api-token $option --steps 4
{"password": "p\\"$quoted\\\\word1", "step": 4}
Authorization: Basic $basic
-----BEGIN RSA $(printf 'PRIVATE KEY')-----
$(letters 64)
-----END RSA $(printf 'PRIVATE KEY')-----
END
pem=$(sed -n 7p "$WORK/say")
cat >"$WORK/leaks.py" <<'END'
import base64, json, os, shlex, sys, urllib.parse
sauce = os.environ["SAUCE"]
said = [line.rstrip("\n") for line in open(sys.argv[1])]
said += [sauce, json.dumps({"line": json.dumps(sauce)}), urllib.parse.quote(sauce), shlex.quote(sauce),
         base64.b64encode(("me:" + sauce).encode()).decode()]
# Each in turn is the error that ends a generation; the rest stands around it.
errors = said[:6] + said[8:]  # a line from the middle of a key says nothing of itself
error = errors[int(os.environ["JOBCTL_GENERATION"]) % len(errors)]
print("\n".join(said), flush=True)
print("RuntimeError: " + error, file=sys.stderr, flush=True)
sys.exit(1)
END
cat >"$WORK/leaks.yaml" <<YAML
name: leaks
run: exec python3 $WORK/leaks.py $WORK/say
secrets: [SAUCE]
retry: {max: 12, no_progress: 30, backoff: 10ms..20ms}
YAML
jobctl submit -q "$WORK/leaks.yaml"
jobctl wait 1 || [ $? = 93 ]

shown=$WORK/shown
mkdir "$shown"
jobctl why 1 >"$shown/why"
jobctl why 1 --json >"$shown/why.json"
jobctl logs --events 1 >"$shown/events"
jobctl logs --events 1 --json >"$shown/events.json"
jobctl show 1 >"$shown/show"
jobctl show 1 --json >"$shown/show.json"
jobctl status -a >"$shown/status"
jobctl show 1 --report "$WORK/1.tgz"
tar xzf "$WORK/1.tgz" -C "$shown"
cp "$JOBCTL_HOME"/jobs.db* "$JOBCTL_HOME/daemon.log" "$JOBCTL_HOME/jobs/1/1/"{agent.log,spool} "$shown"

# What is looked for: the letters of each, with the value in each encoding.
cat >"$WORK/look.py" <<'END'
import base64, os, pathlib, re, sys
sauce, words = os.environ["SAUCE"], sys.argv[2:]
words += re.findall("[A-Za-z0-9]{8,}", sauce) + [base64.b64encode(("me:" + sauce).encode()).decode()[8:-6]]
found = 0
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*")):
    data = path.read_bytes() if path.is_file() else b""
    for word in words:
        at = data.find(word.encode())
        if at >= 0:
            found = 1
            print(f"{path.name}: {word}: ...{data[max(0, at - 100):at + 60]!r}")
sys.exit(found)
END
look() { python3 "$WORK/look.py" "$1" "$github" "$url" "$option" "$quoted" "$basic" "$pem"; }
look "$shown"

# The search works, the job printed all of it, and the rest of what it said is still there.
mkdir "$WORK/raw"
cp "$JOBCTL_HOME/jobs/1/1/rank0.log" "$WORK/raw"
! look "$WORK/raw" >"$WORK/found" || exit 1
[ "$(grep -c '^rank0.log' "$WORK/found")" -ge 8 ] || { cat "$WORK/found"; exit 1; }
log=$shown/job-1/attempt-1/rank0.log
for rest in 'login with \[redacted\] failed' 'postgres://me:\[redacted\]@db:5432/x' \
    '--api-token \[redacted\] --steps 4' \
    '"password": "\[redacted\]", "step": 4' 'Authorization: Basic \[redacted\]' 'END RSA'; do
    grep -q -e "$rest" "$log" || { echo "no $rest in:"; cat "$log"; exit 1; }
done
grep -q 'redacted' "$shown/events"
