# SPDX-License-Identifier: Apache-2.0
# launch: ssh on a host that does not share the workdir: it gets the submitted code, by contents, once; the job's copy
# there is kept across attempts. A host that shares the workdir uses it, unless the spec requires a snapshot.
. "$TOP/tests/hosts.sh"
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
hosts_up bare one
host_bare bare
bash=$(readlink -f "$(command -v bash)")
rm -f bare.root/bin/bash
cp -L "$bash" bare.root/bin/bash
cp -L --parents $(ldd "$bash" | grep -o '/[^ ]*') bare.root/
state=$WORK/bare/.local/state/jobctl
code_of() { jobctl show "$1" --json | field "${@:2}"; }

mkdir -p w/lib
echo 'word=old' >w/lib/word.sh
printf 'echo "%s"\n' "$(head -c 100000 /dev/zero | tr '\0' x)" >w/large.sh
printf '#!/bin/sh\necho tool\n' >w/tool
chmod +x w/tool
ln -s lib/word.sh w/link
touch w/.env
cat >w/run.sh <<'SH'
. ./link
echo "$word in $(pwd)"
./tool
[ ! -e .env ] || echo secret
n=
[ ! -e runs ] || read n <runs
echo "1$n" >runs
echo "runs $n"
[ "$n" ] || exit 1
SH
cat >w/job.yaml <<'YAML'
name: far
launch: ssh
hosts: [bare]
resources: {gpus: 0}
run: . ./run.sh
retry: {max: 3, backoff: 0.05s..0.1s}
YAML

code 0 jobctl submit -q --hold w/job.yaml
echo 'word=new' >w/lib/word.sh
jobctl hold --off 1
code 0 jobctl wait 1 || { jobctl logs 1; jobctl why 1; tail "$JOBCTL_HOME/daemon.log"; exit 1; }
jobctl logs 1 | grep -v -- --- >said
digest=$(code_of 1 code.snapshot)
copy=$state/hosted/$(ls "$state/hosted")/code/$digest
diff - said <<LOG
old in $copy
tool
runs 
old in $copy
tool
runs 1
LOG
[ "$(code_of 1 code.must)" = false ]
[ -z "$(find "$state/code/$digest/tree" ! -type l -perm /0277)" ]
[ "$(cat "$copy/runs")" = 11 ]

# Of other code only what is new goes there: the host is not offered the rest any more.
code 0 jobctl submit -q --hold w/job.yaml --set name=next
next=$(code_of 2 code.snapshot)
[ "$next" != "$digest" ]
chmod u+w "$JOBCTL_HOME/code/$next/tree"
rm -f "$JOBCTL_HOME/code/$next/tree/large.sh"
jobctl hold --off 2
code 0 jobctl wait 2
jobctl logs 2 | grep -qx "new in .*/code/$next"
cmp w/large.sh "$state/code/$next/tree/large.sh"
[ -z "$(find "$state/code" -name '*.part')" ]

# What is missing on both sides is told, and nothing is started.
echo 'word=third' >w/lib/word.sh
code 0 jobctl submit -q --hold w/job.yaml --set name=broken --set retry.max=0
rm -f "$JOBCTL_HOME/code/$(code_of 3 code.snapshot)/tree/lib/word.sh"
jobctl hold --off 3
code 1 jobctl wait 3
code 0 jobctl why 3
has "the job's code cannot be copied to bare: " out
has 'lib/word.sh has changed since the snapshot was taken; submit the job again' out

# A host with the workdir itself, as on a shared file system.
code 0 jobctl submit -q w/job.yaml --set name=near --set 'hosts=[one]'
jobctl wait 4
[ "$(jobctl logs 4 | head -n 1)" = "third in $WORK/w" ]
code 0 jobctl submit -q w/job.yaml --set name=own --set 'hosts=[one]' --set snapshot=true
jobctl wait 5
jobctl logs 5 | grep -qx "third in $WORK/one/.local/state/jobctl/hosted/.*/code/[0-9a-f]*"

# A workdir that is only there, and one that is too large: as without snapshots, the latter with a word.
mkdir -p "$WORK/bare.root/root/there"
echo 'echo there' >"$WORK/bare.root/root/there/run.sh"
code 0 jobctl submit -q w/job.yaml --set name=there --set workdir=/root/there
empty err
jobctl wait 6
[ "$(jobctl logs 6)" = there ]
fallocate -l 2M w/data 2>/dev/null || head -c 2000000 /dev/zero | tr '\0' x >w/data
JOBCTL_SNAPSHOT_MIB=1 code 0 jobctl submit -q --hold w/job.yaml --set name=large
has 'note: no snapshot of the code is sent to the hosts: the code in' err
