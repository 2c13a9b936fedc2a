# SPDX-License-Identifier: Apache-2.0
# jobctl -H HOST from a machine without a daemon: output and exit codes are those of the host; a spec is read here and
# checked there; commands about the machine itself run there; a host without jobctl, one with another version and one
# that does not exist give an error.
. "$TOP/tests/hosts.sh"
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
export HOST_ENV="PATH=$PATH ONLY_THERE=yes"
hosts_up far
there=$JOBCTL_HOME
far() { JOBCTL_HOME=$WORK/laptop jobctl -H far "$@"; }
# same ARGUMENTS...: one command, here and from afar: code, output and errors
same() {
    local here=0
    (cd far && jobctl "$@") >here.out 2>here.err || here=$?
    code "$here" far "$@"
    diff here.out out
    diff here.err err
}

# A daemon starts there and none here. The job runs in the home and the environment of a login there.
code 3 far daemon status
code 0 far run --json -d -N first -- sh -c 'echo ran in $PWD $ONLY_THERE'
json "o['job']['id'] == 1"
code 0 far wait -q 1
code 0 far logs 1
[ "$(cat out)" = "ran in $WORK/far yes" ]
[ -S "$there/jobctl.sock" ]

# The same answers and codes, as text and as JSON.
cat >bad.yaml <<'YAML'
name: bad
workdir: no/such/place
run: no-such-program --now
retry: {restarts: 1, backof: 3s}
YAML
cp bad.yaml far/
cp bad.yaml far/job.yaml
code 0 far run -d -q -- sh -c 'echo said; exit 5'
code 1 far wait -q 2
for command in 'status -a' 'show 1 --json' 'logs 2' 'why 2' 'wait 1 2 --json' 'cancel 1' 'show 77' 'logs' 'nodes' \
    'daemon status --json' 'submit bad.yaml' 'submit bad.yaml --json' 'plan bad.yaml' 'shell 2'; do
    same $command
done
has 'shell needs a running rank' err

# The text and its lines are here; the paths and programs are there.
rm far/bad.yaml
code 2 far submit bad.yaml
has 'bad.yaml:4:22: ' err
has 'backof' err
sed -i '/retry/d' bad.yaml
code 2 far submit bad.yaml
has 'bad.yaml:2:' err
has "directory $WORK/far/no/such/place does not exist" err
mkdir -p far/no/such/place far/bin
code 2 far submit bad.yaml
has 'bad.yaml:3:' err
has 'no-such-program is not in PATH' err

# Files that are only here, for commands that run there; secrets of here, else of there; standard input.
cat >here.yaml <<'YAML'
name: here
run: echo "$SECRET_HERE $ONLY_THERE $PWD" | rev
secrets: [SECRET_HERE, ONLY_THERE]
resources: {gpus: 0, ranks: 1}
YAML
export SECRET_HERE=abc
code 0 far submit -q here.yaml
code 0 far wait -q here
code 0 far logs here
[ "$(rev <out)" = "abc yes $WORK/far" ]
code 0 far submit -q - --set name=stdin <here.yaml
code 0 far plan here.yaml --json
json "'rev' in str(o) and '$WORK/far' in str(o)"
mkdir folder
cp here.yaml folder/
code 0 far submit --dry-run --json folder/here.yaml # its folder is one of here
json "o['spec']['workdir'] == '$WORK/far'"
code 2 far submit here.yaml --set snapshot=true
has 'snapshot: the snapshot is taken on far, but' err
code 1 far diff here stdin
has 'stdin' out
code 2 far submit missing.yaml
has 'cannot read missing.yaml' err
unset SECRET_HERE
code 2 far submit here.yaml
has 'secret SECRET_HERE is not set' err

# Its own words: -H and $JOBCTL_HOST; the daemon of another machine; a terminal there.
code 0 env JOBCTL_HOST=far JOBCTL_HOME="$WORK/laptop" jobctl status -a -q
[ "$(cat out)" = $'4\n3\n2\n1' ]
code 0 env JOBCTL_HOST=nowhere jobctl --host=far version
code 2 jobctl -H 'a;b' status
has '-H takes a host as ssh does' err
code 2 far daemon
has 'daemon restart' err
before=$(daemon_pid)
code 0 far daemon restart
[ "$(daemon_pid)" != "$before" ]
code 0 far run -d -q -N sleeper -- sleep 300 # until it is cancelled
wait_for "the sleeper runs" job_is sleeper state running
code 7 far shell sleeper -- sh -c 'echo "a  b$1"; echo wrong >&2; exit 7' x "'\"% c"
[ "$(cat out)" = "a  b'\"% c" ]
[ "$(cat err)" = wrong ]
code 5 script -qec 'JOBCTL_HOME=$WORK/laptop jobctl -H far shell sleeper -- sh -c "test -t 0 && echo a terminal; exit 5"' typescript
has 'a terminal' out
code 0 far cancel sleeper
[ ! -e laptop ] # nothing of all this needed a state directory here

# user@host; no jobctl; another version; nobody.
code 0 jobctl -H "$(id -un)@far" status -q
code 2 jobctl -H "nobody-here@far" status
has 'nobody-here' err
code 2 jobctl -H no-host.invalid status
has 'host not found' err
code 2 env JOBCTL_HOST_PROGRAM="$WORK/none" jobctl -H far status
has "far has no $WORK/none" err
printf '#!/bin/sh\n[ "$1" = relay ] && printf "jobctl-relay 1\\n{\\"version\\":\\"0.0.9\\",\\"schema\\":1}\\n" && exec cat\n' >old
chmod +x old
code 2 env JOBCTL_HOST_PROGRAM="$WORK/old" jobctl -H far status
has 'far has jobctl 0.0.9, this is ' err
host_down far
code 4 far status
has 'host far refused the connection' err
code 4 far doctor
