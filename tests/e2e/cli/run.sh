# SPDX-License-Identifier: Apache-2.0
# A command as a job: its arguments arrive unchanged, its exit code is returned, Ctrl-C asks what to do with it.
cd "$WORK"
. "$TOP/tests/e2e/expect.sh"
on_terminal() { python3 -IS "$TOP/tests/e2e/terminal.py" "$@"; }

# Wrong calls are one sentence, before any daemon starts.
refused() { # SENTENCE ARGUMENTS...
    code 2 jobctl run "${@:2}"
    has "$1" err
    [ "$(wc -l <err)" = 1 ]
}
touch job.yaml
refused "run takes a command"
refused "job.yaml is a job file; use jobctl submit job.yaml" job.yaml
refused 'resources.ranks: expected a whole number from 1 to 1024' -n 0 true
refused "--gpus: expected a whole number or auto, not \"many\"" --gpus many true
refused 'name: "a b" may contain only letters' -N 'a b' true
refused 'unknown key "tiem"' --set tiem=1 true
refused "word 2 of the command is not valid UTF-8" -- echo $'\xff'
[ ! -e "$JOBCTL_HOME" ]

# Attached: output, and the words of the command one by one, options among them.
cat >show.py <<'PY'
import json, os, sys
json.dump([sys.argv[1:], os.environ.get("GREETING"), os.getcwd()], open(sys.argv[1], "w"))
print("shown")
PY
odd=("it's" '$HOME' '*' 'a b' '' '"' '\' $'two\nlines\t' '#x' '--' '-n' '~' '!' 'ä😀' $'\x01\x7f' ';exit 9')
code 0 jobctl run -g 0 --set resources.cpus=1 GREETING='good day' python3 show.py words "${odd[@]}"
has "job 1 (show) submitted" out
has shown out
has "job 1 (show) succeeded" out
python3 - "words" "${odd[@]}" <<'PY'
import json, os, sys
words, greeting, cwd = json.load(open("words"))
assert words == sys.argv[1:], words
assert greeting == "good day" and cwd == os.getcwd(), (greeting, cwd)
PY
code 0 jobctl run -q -n 2 -N pair --set resources.cpus=1 'echo "rank $RANK of $WORLD_SIZE" | tr a-z A-Z'
[ "$(cat out err)" = "RANK 0 OF 2" ] # and nothing of our own
[ "$(jobctl status -o name,np 2 | tail -n 1 | tr -s ' ')" = "pair 2" ]
code 1 jobctl run --set retry.max=0 --set resources.cpus=1 -- sh -c 'echo bad; exit 3'
has bad out

# Detached, and as JSON.
code 0 jobctl run -d -q --set resources.cpus=1 echo detached
[ "$(cat out)" = 4 ]
code 0 jobctl wait 4
code 0 jobctl logs 4
has detached out
code 0 jobctl run --json --set resources.cpus=1 true
json 'o["job"]["id"] == 5 and o["job"]["result"] == "succeeded"'

# Ctrl-C on a terminal asks: go on watching, cancel it.
hold='echo up; exec sleep 600'
code 3 on_terminal +up '=^C' '+keep watching? ' '=x\n' '+keep watching? ' '=\n' '+running for' '=^C' \
    '+keep watching? ' '=c\n' -- jobctl run --set resources.cpus=1 "$hold"
has "stop requested: on request" out
# Leave it.  The second Ctrl-C, at the question, leaves it as well; two jobs at once.
on_terminal +up '=^C' '+keep watching? ' '=l\n' -- jobctl run -N kept --set resources.cpus=1 "$hold" >left 2>&1 &
leaving=$!
code 130 on_terminal +up '=^C' '+keep watching? ' '=^C' -- jobctl run -N kept --set resources.cpus=1 "$hold"
has "keeps running. Reattach: jobctl logs -f" out
code 130 wait $leaving
grep -qF "keeps running. Reattach: jobctl logs -f" left
end_both() {
    local jobs
    wait_for "both run" both_run
    jobs=$(jobctl status -q)
    code 0 jobctl cancel -q --all --yes --now
    for job in $jobs; do code 3 jobctl wait "$job"; done
}
both_run() { [ "$(jobctl status -q -s running | wc -l)" = 2 ]; }
end_both
# Without a terminal neither SIGINT nor SIGTERM asks.
followers=()
for signal in INT TERM; do
    jobctl run -N kept --set resources.cpus=1 "$hold" >"followed.$signal" 2>&1 </dev/null &
    followers+=($!)
done
for i in 0 1; do
    signals=(INT TERM)
    wait_for "the job runs" grep -q up "followed.${signals[i]}"
    kill "-${signals[i]}" "${followers[i]}"
    code 130 wait "${followers[i]}"
    grep -q 'keeps running' "followed.${signals[i]}"
done
end_both

# A program is not a job file.
echo 'print(1)' >train.py
printf '#!/bin/bash\n#SBATCH -n 1\ntrue\n' | tee job.sh >job
for file in 'train.py: python3 train.py' 'job.sh: bash job.sh' 'job: ./job'; do
    code 2 jobctl submit "${file%%:*}"
    has "${file%%:*} is a program, not a job file; start it with: jobctl run -- ${file#*: }" err
done
