# SPDX-License-Identifier: Apache-2.0
# Many jobs at once: several files, commands for all, the list of many.
cd "$WORK"
. "$TOP/tests/e2e/expect.sh"
on_terminal() { python3 -IS "$TOP/tests/e2e/terminal.py" "$@"; }

# Several files: none is stored unless all are sound, for the reader and for the daemon.
spec() { printf 'name: %s\nrun: "%s"\nresources: {cpus: 1}\n' "$@"; }
spec one true >one.yaml
spec two true >two.yaml
printf 'after: [one]\n' >>two.yaml
spec bad true >bad.yaml
printf 'rnu: x\n' >>bad.yaml
code 2 jobctl submit one.yaml bad.yaml two.yaml
has 'bad.yaml:4:1: unknown key "rnu"; did you mean "run"?' err
code 2 jobctl submit - one.yaml - </dev/null
has "- is given 2 times" err
code 2 jobctl submit --follow one.yaml two.yaml
has "--follow shows one job, not 2" err
[ ! -e "$JOBCTL_HOME" ]
spec big true | sed 's/cpus: 1/cpus: 4096/' >big.yaml
code 2 jobctl submit one.yaml big.yaml
has "big.yaml: resources: 4096 CPU slots needed" err
code 3 jobctl submit two.yaml one.yaml
has "two.yaml: after: " err
[ -z "$(jobctl status -a -q)" ]
code 1 jobctl submit --wait one.yaml two.yaml - < <(spec three 'exit 3' && echo 'retry: {max: 0}')
has "job 2 (two) succeeded" out
has "job 3 (three) failed" out
code 0 jobctl submit --json --hold one.yaml two.yaml
json '[j["name"] for j in o["jobs"]] == ["one", "two"] and o["jobs"][1]["after"] == [4]'
code 0 jobctl submit --dry-run --json one.yaml one.yaml
json '[j["spec"]["name"] for j in o["jobs"]] == ["one", "one"]'
code 0 jobctl cancel 4
code 1 jobctl wait 5

# Cancel all of them: it asks, and says how many of which state.
code 0 jobctl submit -q --hold one.yaml one.yaml one.yaml
code 2 jobctl cancel
has "--all for every job that is not done" err
code 2 jobctl cancel --all 4
has "leave out 4" err
code 2 jobctl cancel --all
has "asks before it cancels 3 jobs: 3 held, but stdin is not a terminal" err
code 0 on_terminal '+Cancel 3 jobs: 3 held? [y/N] ' '=n\n' -- jobctl cancel --all
has "Nothing was cancelled." out
[ "$(jobctl status -q | wc -l)" = 3 ]
code 0 on_terminal '+[y/N] ' '=y\n' -- jobctl cancel --all
[ -z "$(jobctl status -q)" ]
code 0 jobctl cancel --all --yes
has "No job is active." out
code 0 jobctl cancel --all --yes --json
json 'o["jobs"] == []'

# The list: states, order, totals; jobs of long names are a line each at 80 columns.
code 2 jobctl status -s runing
has 'unknown state "runing"; states: running, ' err
long=$(printf 'a-very-long-name-of-a-job-%.0s' 1 2)
sed "s/name: .*/name: ${long}x/; s/run: .*/run: exec sleep 600/" one.yaml >long.yaml
code 0 jobctl submit -q long.yaml
last=$(cat out)
wait_for "the long one runs" job_is "$last" state running
files=()
for _ in $(seq 20); do files+=(long.yaml); done
code 0 jobctl submit -q --hold "${files[@]}"
code 0 jobctl status -q -s failed
[ "$(tr '\n' ' ' <out)" = "5 3 " ]
code 0 jobctl status -q -s running,failed
[ "$(tr '\n' ' ' <out)" = "$last 5 3 " ]
code 0 jobctl status -q -s succeeded -n 1
[ "$(cat out)" = 2 ]
code 0 jobctl status -q -s cancelled 1-4
[ "$(cat out)" = 4 ]
code 0 jobctl status -q
[ "$(head -n 1 out)" = $((last + 20)) ]
LC_ALL=C code 0 on_terminal -- env TERM=dumb jobctl status
tr -d '\r' <out >table
[ "$(wc -l <table)" = 23 ]
grep -q "^ *ID  *NAME  *STATUS  *PROGRESS  *LOSS  *SPEED" table
awk 'length > 80 { print; bad = 1 } END { exit bad }' table
sed -n 2p table | grep -q "^ *$last  a-very-long.*running"
tail -n 1 table | grep -qx "21 jobs: 1 running, 20 held"
code 0 on_terminal -- env TERM=dumb jobctl status -n 5 -s held
has "20 jobs: 20 held; 5 of them shown (-n)" out
# --watch paints over what is there, no more lines than the window has, totals first; Ctrl-C ends it.
code 0 on_terminal 80x10 '+21 jobs: 1 running, 20 held' '+running' '+21 jobs' '=^C' -- jobctl status -w
[ "$(grep -c 'held' out)" -le 27 ]
[ "$(grep -o $'\033\[2J' out | wc -l)" = 1 ]
code 0 jobctl cancel --all --yes --now
code 3 jobctl wait "$last"
