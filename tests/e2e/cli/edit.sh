# SPDX-License-Identifier: Apache-2.0
# jobctl edit: another spec for a waiting job, checked like a submit, applied completely or not at all; no typed text is
# lost.
cd "$WORK"
. "$TOP/tests/e2e/expect.sh"
on_terminal() { python3 -IS "$TOP/tests/e2e/terminal.py" "$@"; }
export TMPDIR=$WORK
# The editor: runs $EDIT on the text, once per line of it.
cat >editor.sh <<'SH'
#!/bin/sh
[ "$1" = --wait ] || exit 9
cp "$2" "$WORK/shown"
script=$(head -n 1 "$WORK/edit.sed")
sed -i 1d "$WORK/edit.sed"
exec sed -i -e "$script" "$2"
SH
chmod +x editor.sh
export WORK VISUAL="$WORK/editor.sh --wait"
edit() { printf '%s\n' "$@" >edit.sed; }
spec_of() { jobctl show --json "$1" | field "${@:2}"; }

mkdir sub
cat >sub/job.yaml <<'YAML'
# mine
name: first
run: echo "$WORD in $(basename "$PWD")"    # says it
env: {WORD: old}
resources: {cpus: 1}
YAML
echo 'never: mind' >keep.yaml
code 0 jobctl submit -q --hold sub/job.yaml --set env.TOKEN=hunter2hunter2 --set priority=3 --set env.COLOR=red
code 0 jobctl submit -q --hold sub/job.yaml --after first

# Text, comments and overrides are shown; what looks like a secret is not, and stays.
edit 's/old/new/; s/priority=3/priority=4/'
code 0 jobctl edit 1
has "job 1 (first) is edited: env.WORD, priority" out
grep -qx '# mine' shown
grep -qx '# --set env.COLOR=red' shown
! grep -q hunter2 shown || exit 1
[ "$(spec_of 1 spec.env.WORD spec.env.TOKEN spec.env.COLOR)" = "new hunter2hunter2 red" ]
[ "$(spec_of 1 job.priority job.held job.state)" = "4 true pending" ]
[ "$(head -n 1 "$JOBCTL_HOME/jobs/1/spec.yaml")" = "# mine" ]
grep -q 'WORD: new' "$JOBCTL_HOME/jobs/1/spec.yaml"
code 0 jobctl logs --events 1
has "its spec was edited: env.WORD and priority" out
code 0 jobctl why 1
has "its spec was edited" out

# With --set and without an editor: the new override replaces that of the same key.
VISUAL=false code 0 jobctl edit 1 -s env.COLOR=blue
has "job 1 (first) is edited: env.COLOR" out
[ "$(spec_of 1 spec.env.WORD spec.env.TOKEN spec.env.COLOR)" = "new hunter2hunter2 blue" ]
code 0 jobctl edit 1 -s env.COLOR=blue
has "Nothing was changed." out
code 2 jobctl edit 1 -s resources.cpsu=1
has '--set resources.cpsu=1: unknown key "cpsu" in resources; did you mean "cpus"?' err
code 2 jobctl edit 1 --set resources.cpus=4096
has "4096 CPU slots needed" err
code 2 jobctl edit 1 --set 'secrets=[HOME]'
has "secrets: cannot be edited" err

# Without a change nothing is stored.
edit ''
code 0 jobctl edit 1
has "Nothing was changed." out
[ "$(jobctl logs --events 1 | grep -c edited)" = 2 ]
[ -z "$(find . -maxdepth 1 -name '*-job1.yaml')" ]

# What a submit refuses is refused, at its place in the text; without a terminal the text is kept.
edit 's/cpus: 1/cpsu: 1/; s/new/newer/'
code 2 jobctl edit 1
has '-job1.yaml:10:13: unknown key "cpsu" in resources; did you mean "cpus"?' err
has "job 1 was not changed; your text is in $WORK/" err
grep -q 'WORD: newer' "$(sed -n 's/.*your text is in //p' err)"
edit 's/cpus: 1/cpus: 4096/'
code 2 jobctl edit 1
has "4096 CPU slots needed" err
edit '$a secrets: [HOME]'
code 2 jobctl edit 1
has "secrets: cannot be edited, because the job keeps the environment from its submission" err
edit '$a after: [2]'
code 3 jobctl edit 1
has "job 2 was not submitted before job 1" err
VISUAL=false code 2 jobctl edit 1
has "the editor 'false' failed" err
[ "$(spec_of 1 spec.env.WORD)" = new ]
# On a terminal it asks, and the editor begins with that text.
edit 's/WORD: new/WROD: {}/' 's/WROD: {}/WORD: third/'
code 0 on_terminal '+env.WROD: expected' '+Edit again? (y/n)' '=y\n' '+job 1 (first) is edited: env.WORD' -- \
    jobctl edit 1
grep -q 'WROD: {}' shown
edit 's/first/a b/'
code 2 on_terminal '+Edit again? (y/n)' '=n\n' '+your text is in' -- jobctl edit 1
rm -f ./*-job1.yaml

# Two at once: the later one is told. A job that starts meanwhile is refused.
edit 's/WORD: third/WORD: mine/'
printf '%s\n' '#!/bin/sh' 'VISUAL="$WORK/editor.sh --wait" jobctl edit 1' 'echo "run: echo other" >"$1"' >slow.sh
chmod +x slow.sh
VISUAL=$WORK/slow.sh code 3 jobctl edit 1
has "the spec of job 1 was edited meanwhile" err
printf '%s\n' '#!/bin/sh' 'jobctl hold --off -q 1 && jobctl wait 1' 'echo "run: echo other" >"$1"' >late.sh
chmod +x late.sh
VISUAL=$WORK/late.sh code 3 jobctl edit 1
has "job 1 is done (succeeded)" err
code 0 jobctl logs 1
has "mine in sub" out

# A name, and what it waits for. The daemon dies with the commit: the next one has all of it, also where the
# events beside the job are of the older spec.
edit 's/name: first/name: second/; $a after: []' 's/--set after=.*/--set after=[]/'
code 0 jobctl edit 2
has "job 2 (second) is edited: name" out
cp "$JOBCTL_HOME/jobs/2/job.json" older
stop_daemon KILL
JOBCTL_TEST_DIE_AT_EVENT=1 jobctl daemon >/dev/null 2>&1 &
wait_for "the daemon answers" daemon_answers
edit 's/^run:.*/run: echo again/'
code 4 jobctl edit second
has "jobctl show 2 --spec prints the current spec; your text is in $WORK/" err
cp older "$JOBCTL_HOME/jobs/2/job.json"
[ "$(spec_of second spec.run)" = "echo again" ]
grep -q 'echo again' "$JOBCTL_HOME/jobs/2/job.json"
# What a name and "last" meant at the submit, they mean at the edit; a retry keeps the checkpoints that it continues.
code 0 jobctl submit -q --hold sub/job.yaml --set name=third --after last
code 0 jobctl submit -q --hold sub/job.yaml --set name=fourth --after second
code 0 jobctl submit -q --hold sub/job.yaml --set name=second
mkdir sub/deep
edit 's/old/new/; $a workdir: deep' 's/old/new/'
code 0 jobctl edit third
has "is edited: env.WORD, workdir" out
[ "$(spec_of third spec.workdir)" = "$WORK/sub/deep" ] # a relative path begins where the submitted file was
code 0 jobctl edit fourth
[ "$(spec_of third spec.after) $(spec_of fourth spec.after)" = "2 2" ]
code 0 jobctl nodes drain "$(hostname)"
code 0 jobctl retry -q 1
edit 's/priority=4/priority=2/'
code 0 jobctl edit last
[ "$(spec_of last spec.checkpoint.dir)" = "$JOBCTL_HOME/jobs/1/checkpoints" ]
jobctl cancel -q 3 4 5 6
code 0 jobctl nodes resume "$(hostname)"
code 0 jobctl hold --off -q 2
code 0 jobctl wait 2
code 0 jobctl logs 2
has again out
grep -q 'echo again' "$JOBCTL_HOME/jobs/2/spec.yaml"
