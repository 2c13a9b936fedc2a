# SPDX-License-Identifier: Apache-2.0
# What a script's end hides: exit code 0 of a pipe, of an echo or of a shell that waits for nothing is a success in
# doubt; a failure because another rank had ended says so; a pipe without a reader is not a killed program, and a
# command that fails without a message is named.
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
. "$TOP/tests/e2e/expect.sh"

printf 'print("step 9/200 loss: 0.5", flush=True)\ncfg = {}\nprint(cfg["depth"])\n' >"$WORK/bad.py"
# job NAME RANKS RUN: its last event's reason, after its end
job() {
    printf 'name: %s\nresources: {gpus: 0, ranks: %s}\nworkdir: %s\nretry: {max: 0}\nrun: |\n%s\n' "$1" "$2" "$WORK" \
        "$(sed 's/^/  /' <<<"$3")" >"$WORK/$1.yaml"
    id=$(jobctl submit -q "$WORK/$1.yaml")
    jobctl wait "$id" || true
    jobctl why "$id" --json >"$WORK/$1.why"
    cat "$WORK/$1.why"
}

job tee 1 "sh -c 'python3 bad.py 2>&1 | tee log'" |
    grep "succeeded.*every rank exited with code 0; but the output of rank 0 ends with bad.py:3: KeyError: 'depth'"
grep 'and only 9 of 200 steps were reported' "$WORK/tee.why"
job echo 1 "python3 bad.py || true; echo done" | grep "succeeded.*ends with bad.py:3: KeyError"
job nohup 1 "nohup tail -f /dev/null >/dev/null 2>&1 &" |
    grep 'succeeded.*but 1 process was still running and was ended: [0-9]* ([a-z]*); leave out `&`'
echo "KeyError: 'old'" >"$WORK/train.log"
job file 1 'python3 bad.py > train.log 2>&1' | grep "exited with code 1: bad.py:3: KeyError: 'depth'"
job unwritten 1 'false && echo x >> bad.py; exit 3' | grep 'exited with code 3; no reason was printed'
job fine 1 "seq 3 | tail -n 1" | grep '"reason":"every rank exited with code 0"'
job pipe 1 'first=$(yes | head -n 1)
echo "$first"' | grep 'exited with code 141: line 1 of the command (first=$(yes | head -n 1)) wrote into a pipe'
job pipes 1 'yes | head -n 1' | grep 'exited with code 141: a program wrote into a pipe whose reader had ended'
job arith 1 'n=0
for f in *.py; do
  ((n++))
done
echo "$n files"' | grep 'exited with code 1: line 3 of the command (((n++))) failed without a message'
job inside 1 'f() {
  grep -q nothing "$1"
}
f bad.py
python3 -c 1' | grep 'line 2 of the command (grep -q nothing \\"$1\\") failed without a message'
job words 1 'cd /
python3 -c "raise KeyError(7)"' | grep 'exited with code 1: <string>:1: KeyError: 7'
job quiet 1 'cd /
exit 7' | grep 'exited with code 7; no reason was printed'
mkfifo "$WORK/ended" # rank 1 reads it until rank 0 has ended
job uneven 2 'if [ "$RANK" = 0 ]; then exec 3>ended; exit 0; fi
cat ended; timeout 0.5 tail -f /dev/null || true
echo "RuntimeError: [gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:6559" >&2; exit 1' |
    grep 'Connection closed by peer.*; before that, rank 0 had ended with code 0'
