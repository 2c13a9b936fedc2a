# SPDX-License-Identifier: Apache-2.0
# At each submit, the workdir's commit and later changes are recorded with the job, readable by its user only; neither
# git, nor its absence, nor an error in it fails a submit. With a snapshot git lists the code, including nested
# repositories.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
command -v git >/dev/null || { echo "no git here"; exit 77; }
export HOME=$WORK GIT_CONFIG_NOSYSTEM=1
git config --global user.name me
git config --global user.email me@example.org
git config --global init.defaultBranch main
git config --global protocol.file.allow always
code_of() { jobctl show "$1" --json | field "${@:2}"; }
job() { jobctl run -q -d --set priority=-1 "$@" -- true; }

git init -q r
mkdir r/src
echo one >r/src/a.txt
echo two >r/b.txt
printf '*.log\n' >r/.gitignore
git -C r add .
git -C r commit -qm first
head=$(git -C r rev-parse HEAD)
cd r/src

# Clean, then changed, from a folder of the repository: the diff is that of the whole.
code 0 job
[ "$(code_of 1 code.commit code.branch code.changed code.workdir)" = "$head main 0 $WORK/r/src" ]
[ "$(cat "$JOBCTL_HOME/jobs/1/code/commit")" = "$head" ]
[ ! -e "$JOBCTL_HOME/jobs/1/code/diff.patch" ]
echo changed >>../b.txt
echo new >new.txt
code 0 job
has 2 out
git diff HEAD >../../wanted
diff ../../wanted "$JOBCTL_HOME/jobs/2/code/diff.patch"
[ "$(stat -c %a "$JOBCTL_HOME/jobs/2/code/diff.patch")" = 600 ]
code 0 jobctl show 2
has "${head:0:12} on main, 1 file changed: $JOBCTL_HOME/jobs/2/code/diff.patch" out
code 1 jobctl diff 1 2 --code
has '++changed' out
code 0 jobctl show 2 --report "$WORK/report.tar.gz"
! tar -tzf "$WORK/report.tar.gz" | grep -e diff.patch -e commit || exit 1

# From within a hook, whose variables name another index; and a repository that says "run this" for a diff.
git config diff.external "touch $WORK/ran #"
git config core.fsmonitor "touch $WORK/ran #"
GIT_DIR=/nowhere GIT_INDEX_FILE=/nowhere/index code 0 job
git config --unset core.fsmonitor
diff ../../wanted "$JOBCTL_HOME/jobs/3/code/diff.patch"
[ ! -e "$WORK/ran" ]

# A diff that is too long is cut, and said to be.
seq 1000000 >../b.txt
code 0 job
[ "$(code_of 4 code.diff_cut code.diff_bytes)" = "true 4194304" ]
code 0 jobctl show 4
has 'diff.patch, cut' out
git -C .. checkout -q b.txt

# No commit yet, no repository, no git, a git that refuses or hangs up: the job is submitted.
mkdir "$WORK/empty" "$WORK/none"
git init -q "$WORK/empty"
(cd "$WORK/empty" && code 0 job)
[ "$(code_of 5 code.git code.commit 2>/dev/null || code_of 5 code.git)" = "the repository has no commit yet" ]
(cd "$WORK/none" && code 0 job)
[ "$(code_of 6 code)" = null ]
mkdir "$WORK/bin"
printf '#!/bin/sh\necho "fatal: detected dubious ownership in repository at /x" >&2\nexit 128\n' >"$WORK/bin/git"
chmod +x "$WORK/bin/git"
PATH=$WORK/bin:$PATH code 0 job
[ "$(code_of 7 code.git)" = "detected dubious ownership in repository at /x" ]
code 0 jobctl show 7
has "not recorded: detected dubious" out
printf '#!/bin/sh\nkill -KILL $$\n' >"$WORK/bin/git"
PATH=$WORK/bin:$PATH code 0 job
code 0 jobctl diff 6 6
code 3 jobctl diff 6 7 --code
has 'the code of job 6 was not recorded' err

# A snapshot has what git has and what it would take, also below: a submodule, a repository of its own.
git init -q "$WORK/lib"
echo lib >"$WORK/lib/lib.txt"
git -C "$WORK/lib" add .
git -C "$WORK/lib" commit -qm lib
git -C .. submodule add -q "$WORK/lib" mod
git init -q ../own
echo own >../own/own.txt
touch ../x.log ../own/x.log ../own/.env
rm -f ../b.txt
echo '*.log' >../own/.gitignore
cd ..
code 0 jobctl run -q -d --set snapshot=true -- 'find . -type f | sort; [ -d .git ] && exit 1; exit 0'
has '.env (may hold a secret)' err
jobctl wait 9
jobctl logs 9 >"$WORK/said"
diff - "$WORK/said" <<'LOG'
./.gitignore
./.gitmodules
./mod/lib.txt
./own/.gitignore
./own/own.txt
./src/a.txt
./src/new.txt
LOG
