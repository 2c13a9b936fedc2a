# SPDX-License-Identifier: Apache-2.0
# snapshot: true: the job runs the code as of its submit, in a copy that it keeps across starts; files that are not
# code, or are secret, are left out; originals are shared, read-only, and removed with their last job. Without a
# snapshot git's commit and diff are recorded, and no problem with the code fails a submit.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
export JOBCTL_SNAPSHOT_MIB=2
code_of() { jobctl show "$1" --json | field "${@:2}"; }
originals() { find "$JOBCTL_HOME/code" -mindepth 1 -maxdepth 1 ! -name lock | wc -l; }
git() { command git -c user.name=me -c user.email=me@example.org -c init.defaultBranch=main "$@"; }

mkdir -p w/sub w/venv w/data w/keep
cat >w/run.sh <<'SH'
echo old
mkdir -p out
echo run >>out/runs
[ "$(wc -l <out/runs)" = 3 ] || exit 1
find . | sort
[ -x tool ] && [ ! -x sub/lib.sh ] && cat link && echo "from $JOBCTL_WORKDIR"
SH
printf 'echo tool\n' >w/tool
chmod +x w/tool
echo lib >w/sub/lib.sh
ln -s sub/lib.sh w/link
ln -s /etc w/outside
touch w/venv/pyvenv.cfg w/venv/python w/.env w/prod.env w/kubeconfig w/id_rsa w/keep/a.bin w/keep/b.bin w/sub/x.tmp w/data/big
printf '*.bin\n!b.bin\n' >w/.gitignore
mkdir w/.aws && touch w/.aws/credentials
printf '{"type": "x", "private_key": "-----BEGIN PRIVATE KEY-----\\nMIIE"}' >w/sub/robot.json
printf 'hf_%s\n' abcdefghijklmnopqrstuvwxyz >w/sub/hub.txt
printf '{"bos_token": "<s>", "token": 512}' >w/tokenizer_config.json # a vocabulary is none
touch w/public.key
printf 'data/\n!public.key\n' >w/.jobctlignore
printf '*.tmp\n' >w/sub/.gitignore
mkfifo w/fifo
cat >w/job.yaml <<'YAML'
name: snap
resources: {gpus: 0}
snapshot: true
run: bash run.sh
retry: {max: 10, backoff: 0.05s..0.1s}
YAML

# Without git: both kinds of ignore files, and a word for each thing that cannot come along.
code 0 jobctl submit -q --hold w/job.yaml
matches '^note: the snapshot of the code leaves out \([^ ]* (may hold a secret)\(, \)*\)\{5\} and 5 more$' cat err
code 0 jobctl show 1
for it in .env prod.env .aws/credentials kubeconfig sub/hub.txt sub/robot.json id_rsa; do
    has "$it: may hold a secret" out
done
for it in 'fifo: a FIFO' 'outside: a link that leads outside' 'venv: a virtual environment'; do has "$it" out; done
sed -i 's/echo old/echo new/' w/run.sh
rm w/sub/lib.sh
code 0 jobctl hold --off 1
code 0 jobctl wait 1
jobctl logs 1 | tail -n 19 >said
cat >expected <<LOG
old
.
./.gitignore
./.jobctlignore
./job.yaml
./keep
./keep/b.bin
./link
./out
./out/runs
./public.key
./run.sh
./sub
./sub/.gitignore
./sub/lib.sh
./tokenizer_config.json
./tool
lib
from $WORK/w
LOG
diff expected said
[ "$(cat "$JOBCTL_HOME/jobs/1/code/tree/out/runs")" = "$(printf 'run\nrun\nrun')" ]
[ ! -e w/out ]
digest=$(code_of 1 code.snapshot)
[ -z "$(find "$JOBCTL_HOME/code/$digest/tree" ! -type l -perm /0277)" ]
[ "$(code_of 1 code.files code.must)" = "11 true" ]
code 0 jobctl show 1
has "snapshot      $digest, 11 files" out

# A retry runs the same code; equal code is stored once; a new submit takes what is there now.
code 0 jobctl retry -q 1
echo lib >w/sub/lib.sh
sed -i 's/echo new/echo old/' w/run.sh
code 0 jobctl submit -q --hold w/job.yaml
[ "$(originals)" = 1 ]
sed -i 's/echo old/echo newer/' w/run.sh
chmod -x w/tool
code 0 jobctl submit -q --hold w/job.yaml
[ "$(originals)" = 2 ]
jobctl wait 2
[ "$(code_of 2 code.snapshot)" = "$digest" ]
[ "$(jobctl logs 2 | head -n 1)" = old ]

# Two jobs compared: their code and their specs.
code 1 jobctl diff 3 4
has '-echo old' out
has '+echo newer' out
has 'b/programs' out
lacks 'origin' out
code 0 jobctl diff 1 3 --code
empty out
code 0 jobctl submit -q --hold w/job.yaml --set env.LR=3
code 1 jobctl diff 4 5 --spec
has '"LR": "3"' out
lacks newer out
code 0 jobctl diff 4 5 --code
code 1 jobctl diff 1 5 --json
json "o['a'] == 1 and o['b'] == 5 and not o['equal'] and '+echo newer' in o['diff']"
code 2 jobctl diff 1
has 'diff compares two jobs' err

# An original goes with the last of its jobs, also if the job has closed a directory.
mkdir "$JOBCTL_HOME/jobs/1/code/tree/closed"
touch "$JOBCTL_HOME/jobs/1/code/tree/closed/x"
chmod 500 "$JOBCTL_HOME/jobs/1/code/tree/closed"
jobctl cancel -q 3 4 5
code 0 jobctl remove 1 2
wait_for "job 1 is gone" gone "$JOBCTL_HOME/jobs/1/code"
[ -d "$JOBCTL_HOME/code/$digest" ]
code 0 jobctl remove 3
wait_for "its original is gone" gone "$JOBCTL_HOME/code/$digest"
code 0 jobctl remove 4 5
none_left() { [ "$(originals)" = 0 ]; }
wait_for "all originals are gone" none_left

# Too large: a sentence at the key's place, with what is largest; nothing is stored.
head -c 1500000 /dev/zero | tr '\0' x >w/model.pt
head -c 900000 /dev/zero | tr '\0' x >w/sub/log.txt
truncate -s 3M w/hole
code 2 jobctl submit w/job.yaml
has "job.yaml:3:11: snapshot: the code in $WORK/w is 2.3 MiB, more than 2.0 MiB; the largest are model.pt 1.4 MiB, sub/ 878.9 KiB, " err
has 'list what is not code in .jobctlignore' err
code 2 jobctl run --set snapshot=true -- true
has 'snapshot: ' err
[ "$(originals)" = 0 ]
printf '*.pt\nlog.txt\n' >>w/.jobctlignore
code 0 jobctl submit -q --hold w/job.yaml
code 0 jobctl show last
has 'hole: a sparse file' out
code 0 jobctl submit -q --hold w/job.yaml --set snapshot=false
[ "$(code_of 7 code)" = null ]
code 2 jobctl submit w/job.yaml --set snapshot=maybe
jobctl cancel -q 6 7

# What was taken at the submit cannot be edited; the rest can, and the job runs its old code.
printf '#!/bin/sh\nexec sed -i "$EDIT" "$1"\n' >editor.sh
chmod +x editor.sh
code 0 jobctl submit -q --hold w/job.yaml --set 'run=cat word'
export EDITOR=$WORK/editor.sh TMPDIR=$WORK # a refused text is kept there
EDIT='s/^snapshot.*//' code 2 jobctl edit 8
has 'snapshot: cannot be edited, because the job keeps the code from its submission' err
EDIT="\$aworkdir: $WORK/w/sub" code 2 jobctl edit 8
has 'workdir: cannot be edited, because the job keeps the code from its submission' err
EDIT='s/^name: .*/name: edited/' code 0 jobctl edit 8
unset TMPDIR
jobctl cancel -q 8

# An end by force in the middle leaves nothing half done: the next submit removes what it finds.
mkdir -p "$JOBCTL_HOME/code/.tmp-$(cat /proc/sys/kernel/random/boot_id)-$(stat -L -c %i /proc/self/ns/pid)-1-1-job/tree"
code 0 jobctl submit -q --hold w/job.yaml
[ "$(originals)" = 1 ]
jobctl cancel -q 9
