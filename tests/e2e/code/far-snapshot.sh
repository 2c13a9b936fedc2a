# SPDX-License-Identifier: Apache-2.0
# jobctl -H with snapshot: true: the jobctl there takes the code on its side; missing or unnamed code is an error;
# nothing is left of a snapshot whose submit was refused.
. "$TOP/tests/hosts.sh"
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
export HOST_ENV="PATH=$PATH JOBCTL_SNAPSHOT_MIB=1"
hosts_up far
far() { JOBCTL_HOME=$WORK/laptop jobctl -H far "$@"; }
mkdir far/code only-here
echo 'echo the first' >far/code/say.sh
echo KEY=1 >far/code/.env
cat >job.yaml <<'YAML'
name: job
workdir: code
run: . ./say.sh; [ ! -e .env ] || echo secret
snapshot: true
resources: {gpus: 0, ranks: 1}
YAML
code 0 far submit -q --hold job.yaml
has 'the snapshot of the code leaves out .env' err
echo 'echo the second' >far/code/say.sh
code 0 far submit -q --hold job.yaml --set name=later
code 0 far hold --off 1 2
code 0 far wait -q 1 2
code 0 far logs 1
[ "$(cat out)" = 'the first' ]
code 0 far logs 2
[ "$(cat out)" = 'the second' ]
code 0 far show 1 --json
json "o['code']['snapshot'] and o['code']['workdir'] == '$WORK/far/code'"
code 1 far diff 1 2 --code
has '+echo the second' out

# What cannot be: each is one sentence, and leaves nothing there.
sed '/^workdir/d' job.yaml >home.yaml
code 2 far submit home.yaml
has 'home.yaml:3:11: ' err
has 'snapshot: the snapshot is taken on far, but the spec names no directory there: add workdir: DIR' err
code 2 far submit job.yaml --set "workdir=$WORK/far/only-here"
has "directory $WORK/far/only-here does not exist" err
head -c 2000000 /dev/urandom >far/code/large
code 2 far submit job.yaml
has 'job.yaml:4:11: snapshot: ' err
rm far/code/large
code 3 far submit job.yaml --after 99
[ "$(far status -a -q | wc -l)" = 2 ]
left() { find "$JOBCTL_HOME/code" -mindepth 1 -maxdepth 1 -name '.tmp*' | grep .; }
! left || exit 1
[ ! -e laptop ]
