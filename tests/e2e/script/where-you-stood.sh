# SPDX-License-Identifier: Apache-2.0
# A job runs in its submitter's environment: the daemon was started in one environment, the job is submitted from
# another, with a virtual environment in PATH and another locale. Variables that look secret are only in secrets.env
# while the job lives, survive kill -9 of the daemon and the loss of the store, and are nowhere after its end.
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"

# The shell of the daemon, and a job that runs on while the rest happens.
STOOD=with-the-daemon LC_ALL=C COLUMNS=99 code 0 jobctl status
mkdir -p venv/bin
printf '#!/bin/sh\necho "the python of the venv"\n' >venv/bin/python
chmod +x venv/bin/python
secret=hush$(tr -dc 'a-z' </dev/urandom | head -c 20 || true)
cat >job.yaml <<'YAML'
name: stood
resources: {cpus: 1}
retry: {max: 3, backoff: 10ms..20ms}
secrets: [NAMED]
run: |
  python
  echo "stood $STOOD, locale $LC_ALL, columns ${COLUMNS-none}, display ${DISPLAY-none}, ssh ${SSH_AUTH_SOCK-none}"
  echo "words $TWO_LINES"
  [ "${#HF_TOKEN}" = 24 ] && [ "${#NAMED}" = 24 ] && [ "$AWS_ACCESS_KEY_ID" = moon-1 ] && echo "has its secrets"
  echo up >>up
  until [ -e go ]; do sleep 0.05; done
  [ -e second ] || { touch second; exit 3; }
  echo "has them again: ${#HF_TOKEN} ${#NAMED}"
YAML
export PATH=$WORK/venv/bin:$PATH STOOD=here LC_ALL=C.UTF-8 COLUMNS=40 DISPLAY=:7 SSH_AUTH_SOCK=/tmp/none
export TWO_LINES=$'one\ntwo' HF_TOKEN=$secret NAMED=$secret AWS_ACCESS_KEY_ID=moon-1
code 0 jobctl submit -q job.yaml
wait_for "the job runs" test -e up
code 0 jobctl logs stood
has "the python of the venv" out
has "stood here, locale C.UTF-8, columns none, display none, ssh none" out
has "words one" out
has "has its secrets" out

# In secrets.env and nowhere else: store, WAL, job.json, logs, and what is shown.
kept=$JOBCTL_HOME/jobs/1/secrets.env
only_there() {
    [ "$(grep -rlaF "$secret" "$JOBCTL_HOME")" = "$kept" ] || { grep -rlaF "$secret" "$JOBCTL_HOME"; exit 1; }
    [ "$(stat -c %a "$kept" "$JOBCTL_HOME/jobs/1/env" | tr '\n' ' ')" = "600 600 " ]
}
only_there
for shown in show "logs --events" why; do
    code 0 jobctl $shown stood --json
    lacks "$secret" out
done
code 0 jobctl show stood
has "directory     $WORK" out
has "command       python ..." out
has "AWS_ACCESS_KEY_ID" out
lacks moon-1 out
code 0 jobctl show stood --report "$WORK/report.tgz"
mkdir report
tar xzf report.tgz -C report
! grep -rF "$secret" report || exit 1
[ -z "$(find report -name '*env')" ]

# The daemon is killed, the store lost; the job fails, and its next try has all of it.
stop_daemon KILL
rm "$JOBCTL_HOME"/jobs.db*
env -u HF_TOKEN -u NAMED STOOD=elsewhere jobctl status >there
touch go
code 0 env -u HF_TOKEN -u NAMED jobctl wait stood --timeout 60
code 0 jobctl logs stood
has "has them again: 24 24" out
[ "$(grep -c "stood here" out)" = 2 ]

# At its end they are nowhere; the environment stays, for a new try.
! grep -rlaF "$secret" "$JOBCTL_HOME" || exit 1
[ ! -e "$kept" ] && [ -e "$JOBCTL_HOME/jobs/1/env" ]
code 2 env -u NAMED jobctl retry stood
has NAMED err
NAMED=$secret STOOD=retrier code 0 env -u HF_TOKEN jobctl retry stood
has "note: HF_TOKEN is not set in this environment; job 1 had it" err
code 0 jobctl wait last --timeout 60
code 0 jobctl logs last
has "stood here" out
has "has them again: 0 24" out
! grep -rlaF "$secret" "$JOBCTL_HOME" || exit 1

# A waiting job keeps them over a kill of the daemon.
code 0 jobctl submit -q --hold job.yaml --set name=waits --set 'run=test ${#HF_TOKEN} = 24 -a $STOOD = here'
kill -KILL "$(daemon_answers)"
code 0 env -u HF_TOKEN -u NAMED -u STOOD jobctl hold --off waits
code 0 jobctl wait waits --timeout 60
code 0 jobctl show waits
has "overrides     name=waits" out

# A plain environment; also of a client that has not said where it stands.
printf 'name: plain\nenv_from: clean\nresources: {cpus: 1}\nrun: env\n' >plain.yaml
code 0 jobctl submit --wait plain.yaml
code 0 jobctl logs plain
lacks STOOD= out
lacks HF_TOKEN= out
has "LANG=C.UTF-8" out
grep -q "^PATH=/usr/local/sbin:" out
# Every variable of a rank is in the list of docs/SPEC.md or of a plain login, or the shell's own.
known='^(PATH|LANG|HOME|USER|LOGNAME|SHELL|PWD|OLDPWD|SHLVL|_|NCCL_.*|TORCH_NCCL_.*)$'
sed -n 's/^\([A-Za-z_]*\)=.*/\1/p' out | grep -vE "$known" | while read -r name; do
    grep -q "^|.*\`$name\`.*|" "$TOP/docs/SPEC.md" || { echo "$name is not in docs/SPEC.md"; exit 1; }
done
code 0 curl -s --unix-socket "$JOBCTL_HOME/jobctl.sock" http://x/v1/jobs \
    -d '{"spec": "name: told\nresources: {cpus: 1}\nrun: env\n", "cwd": "/tmp"}'
code 0 jobctl wait told --timeout 60
code 0 jobctl logs told
lacks STOOD= out
has "LANG=C.UTF-8" out

# More than the kernel takes: a sentence, and no job.
big=$(head -c 130000 /dev/zero | tr '\0' x)
for i in 1 2 3 4 5 6 7 8 9; do export "BIG$i=$big"; done
code 2 jobctl submit plain.yaml --set env_from=submit
has "the environment of this command is too large" err
has "env_from: clean" err
code 0 jobctl submit --wait plain.yaml
