# SPDX-License-Identifier: Apache-2.0
# A submit whose connection breaks between request and answer creates one job: the command repeats it by itself; given
# up, or interrupted, it prints the key with which it can be repeated. Ctrl-C before the answer reports which job is
# stored.
. "$TOP/tests/hosts.sh"
. "$TOP/tests/e2e/expect.sh"
cd "$WORK"
export HOST_ENV="PATH=$PATH" JOBCTL_HOST_PROGRAM=$WORK/between
hosts_up far
far() { JOBCTL_HOME=$WORK/laptop jobctl -H far "$@"; }
behind() { exec env JOBCTL_HOME="$WORK/laptop" jobctl -H far "$@"; } # with & alone

# Between the client and the daemon: after an order whose answer is there it breaks off as often as the file `cut` has
# bytes, or holds the answer back while the file `hold` exists.
cat >between <<PY
#!$(command -v python3) -IS
import os, select, subprocess, sys, time
os.chdir("$WORK")
if sys.argv[1:] != ["relay"]:
    os.execv("$BIN/jobctl", ["jobctl"] + sys.argv[1:])
relay = subprocess.Popen(["$BIN/jobctl", "relay"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
ordered = False
while True:
    ready = select.select([0, relay.stdout], [], [])[0]
    if 0 in ready:
        data = os.read(0, 1 << 20)
        if not data:
            break
        ordered = data.startswith(b"POST /v1/jobs ") or (ordered and not data.startswith(b"GET"))
        os.write(relay.stdin.fileno(), data)
    if relay.stdout in ready:
        data = os.read(relay.stdout.fileno(), 1 << 20)
        if not data:
            break
        if ordered and data.startswith(b"HTTP/1.1 20"):
            open("answered", "a").write("x")
            if os.path.exists("cut") and os.path.getsize("cut") > 0:
                os.truncate("cut", os.path.getsize("cut") - 1)
                break
            while os.path.exists("hold") and not select.select([0], [], [], 0.02)[0]:
                pass
        os.write(1, data)
relay.stdin.close()
relay.terminate()
PY
chmod +x between
answers() { [ -e answered ] && [ "$(wc -c <answered)" -ge "$1" ]; }
signal_came() { [ "$(sed -n 's/^S[hi][gd]Pnd:[\t0]*//p' "/proc/$1/status" | tr -d '\n')" = "" ]; } # and was handled
jobs() { far status -a -q; }

printf xx >cut
code 0 far submit -q --set name=once - <<'YAML'
run: echo once
resources: {gpus: 0, ranks: 1}
YAML
[ "$(cat out)" = 1 ]
has 'trying again' err
[ "$(wc -c <answered)" = 3 ]
[ "$(jobs)" = 1 ]
printf x >cut
code 0 far run -q -- echo said
has said out
[ "$(jobs)" = $'2\n1' ]

# The same key and spec are one job, whichever command it is, several files with one key are several jobs; another spec
# with the key, and what is no key, are sentences.
cat >a.yaml <<'YAML'
name: a
run: exec sleep 300 # until it is cancelled
resources: {gpus: 0, ranks: 1, cpus: 1}
YAML
sed 's/name: a/name: b/' a.yaml >b.yaml
code 0 far submit -q --key K a.yaml b.yaml
[ "$(cat out)" = $'3\n4' ]
code 0 far submit -q --key K a.yaml b.yaml
[ "$(cat out)" = $'3\n4' ]
code 0 far submit -q --key K.1 a.yaml
[ "$(cat out)" = 3 ]
code 3 far submit --key K.1 b.yaml
has 'the key K.1 belongs to job 3, which has a different spec' err
code 2 far submit --key 'a b' a.yaml
has "key 'a b': expected 1 to 64 letters" err
stop_daemon KILL # it is stored
code 0 far submit -q --key K.1 a.yaml
[ "$(cat out)" = 3 ]
code 0 far cancel --all --yes -q --now
code 3 far wait -q 3
code 0 far rm 3 # and ends with its job
code 0 far submit -q --hold --key K.1 a.yaml
[ "$(cat out)" = 5 ]

# submit_unanswered FILE: a submit, $submit, whose job is stored and whose answer is held back
submit_unanswered() {
    touch hold
    : >answered
    behind submit --hold "$1" >submit.out 2>submit.err &
    submit=$!
    wait_for "the order is carried out" answers 1
}

# Ctrl-C before the answer: run is at its question, submit says which job it is.
touch hold
: >answered
behind run -N held -- sleep 300 >run.out 2>run.err </dev/null & # until it is cancelled
run=$!
wait_for "the order is carried out" answers 1
kill -INT $run
rm hold
code 130 wait $run
grep 'Job 6 keeps running' run.out
submit_unanswered a.yaml
kill -TERM $submit
rm hold
code 143 wait $submit
grep 'interrupted: job 7 was submitted and will run' submit.err

# A second one does not wait for the answer, and tells how to go on.
submit_unanswered b.yaml
kill -INT $submit
wait_for "the first signal has arrived" signal_came $submit
kill -INT $submit
code 3 wait $submit
rm hold
key=$(sed -n 's/.*repeat the command with --key \([0-9a-f]*\), which never submits twice: interrupted.*/\1/p' submit.err)
code 0 far submit -q --hold --key "$key" b.yaml
[ "$(cat out)" = 8 ]
[ "$(jobs | head -n 1)" = 8 ]
code 0 far cancel --all --yes -q --now
