# SPDX-License-Identifier: Apache-2.0
# Wrong specs through the command line and the API; docs/SPEC.md lists the existing keys.
cd "$WORK"
. "$TOP/tests/e2e/expect.sh"

# Each wrong spec of the museum, as a user sees it: all of its mistakes, each with the line that is
# shown behind it. None needs a daemon.
for err in "$TOP"/tests/specs/[0-9]*.err; do
    spec=${err%.err}.yaml
    sets=()
    while IFS= read -r set; do sets+=(--set "$set"); done < <(sed -n 's/^# set: //p' "$spec")
    code 2 jobctl submit --dry-run ${sets[@]+"${sets[@]}"} "$spec"
    want=$(sed "s|\$DIR|$TOP/tests/specs|g" "$err")
    got=$(sed "/^    /d; s|^$TOP/tests/specs/||; s|^jobctl: ||" "$WORK/err")
    [ "$got" = "$want" ] || { echo "expected: $want"; echo "   found: $got"; exit 1; }
done
[ ! -e "$JOBCTL_HOME" ]

# The place is shown, and given to programs.
printf 'run: echo\nresources:\n  gpus: eight\n' >wrong.yaml
code 2 jobctl submit wrong.yaml
has "wrong.yaml:3:9: resources.gpus:" err
has "      gpus: eight" err
has "            ^" err
code 2 jobctl submit --json wrong.yaml
python3 -c 'import json; e = json.load(open("out"))["error"]; assert (e["file"], e["line"], e["column"]) == ("wrong.yaml", 3, 9), e'

# So are several mistakes, and all of them at once.
printf 'run: echo\npriority: high\nresources:\n  gpus: eight\n' >wrong.yaml
code 2 jobctl submit --set retry.max=many --json wrong.yaml
python3 - <<'END'
import json
answer = json.load(open("out"))
e = answer["errors"]
assert [(x.get("line"), x.get("column")) for x in e] == [(2, 11), (4, 9), (None, None)], e
assert answer["error"]["line"] == 2 and answer["error"]["text"] == e[0]["text"], answer
assert "more" not in answer and e[2]["text"].startswith("--set retry.max=many: "), e
END
code 2 jobctl plan --set retry.max=many wrong.yaml
has "wrong.yaml:2:11: priority:" err
has "      gpus: eight" err
has "jobctl: --set retry.max=many: retry.max:" err
code 2 jobctl submit - <<<'rnu: echo'
has 'did you mean "run"?' err

# A secret must be there; its value is not in what is printed.
printf 'run: "[ ${#TOKEN} = 4 ]"\nsecrets: [TOKEN]\nresources: {cpus: 1}\n' >secret.yaml
code 2 jobctl submit secret.yaml
has "secret TOKEN" err
TOKEN=hush code 0 jobctl submit --wait secret.yaml
! grep -rqs hush "$JOBCTL_HOME" || exit 1

# A dry run gives the canonical spec and leaves no job.
mkdir data
printf 'train:\n  data: {path: data}\n  steps: 3\n' >train.yaml
code 0 jobctl submit --dry-run --set train.optimizer.lr=0.5 train.yaml
python3 -c 'import json; s = json.load(open("out")); assert s["train"]["optimizer"]["lr"] == 0.5 and s["train"]["data"]["path"] == "'"$WORK"'/data", s'
code 0 jobctl status -a -q
[ "$(wc -l <out)" = 1 ]

# The same checks behind the API.
curl -sS --unix-socket "$JOBCTL_HOME/jobctl.sock" http://jobctl/v1/jobs -d \
    '{"spec": "run: echo\nresources:\n  gpus: eight\nenv: 3\n", "file": "x.yaml", "cwd": "/tmp"}' >out
python3 - <<'END'
import json
answer = json.load(open("out"))
e, all = answer["error"], answer["errors"]
assert e["code"] == "usage" and (e["file"], e["line"], e["column"]) == ("x.yaml", 3, 9), e
assert [(x["file"], x["line"], x["column"]) for x in all] == [("x.yaml", 3, 9), ("x.yaml", 4, 6)], all
END

# jobctl sends what it made of the text; the daemon does not parse the text again.
code 0 jobctl submit --dry-run --json train.yaml
cp out dry.json
python3 - <<'END'
import json
json.dump({"spec": "{ no YAML", "cwd": "/", "dry_run": True, "canonical": json.load(open("dry.json"))["spec"]},
          open("request.json", "w"))
END
curl -sS --unix-socket "$JOBCTL_HOME/jobctl.sock" http://jobctl/v1/jobs -d @request.json >out
python3 -c 'import json; a, b = (json.load(open(f)) for f in ("out", "dry.json")); assert a == b, a'

# The answer is a spec for the agent, too.
code 0 jobctl submit --dry-run --json - <<<'{run: echo, resources: {gpus: 0, ranks: 2, cpus: 1}}'
jobctl-agent plan --spec out | grep 'ranks: 2'

# Every key of `jobctl help spec --all` stands in docs/SPEC.md, word for word.
LC_ALL=C.UTF-8 jobctl help spec --all | grep '^  ' >keys
sed -n '/^```$/,/^```$/p' "$TOP/docs/SPEC.md" | grep '^  ' >written
diff written keys

# So does every variable that ranks get, and no other.
sed -n '/^## Variables of a rank/,/^## Canonical/p' "$TOP/docs/SPEC.md" | sed -n 's/^| \(`[^|]*\) |.*/\1/p' |
    grep -o '`[A-Z_]*`' | tr -d '`' | sort >documented
{
    grep -ohE 'put(_int)?\(&?e, "[A-Z_]+"' "$TOP/agent/ranks/launch_env.c"
    grep -ohE 'plan_set(_unset)?\(v, "[A-Z_]+"' "$TOP"/agent/plan/*.c
    sed -n 's/^#define CONTAINER_MARK \("[A-Z_]*"\).*/\1/p' "$TOP/agent/container/container_process.h"
    echo '"JOBCTL_HOME" "JOBCTL_MACHINE_DIR"' # of the daemon
} | grep -oE '[A-Z_]{4,}' | grep -v '^NCCL_[^R]' | sort -u >exported
diff documented exported
[ "$(wc -l <exported)" -gt 40 ]
