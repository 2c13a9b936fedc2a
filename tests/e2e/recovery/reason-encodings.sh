# SPDX-License-Identifier: Apache-2.0
# A reason in GBK, in Latin-1, or cut inside a character keeps the exit code, the cause and the state of the job, from
# its ranks and from its setup; each answer is valid JSON, a bad byte is U+FFFD, and the cut is invisible.
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
. "$TOP/tests/e2e/expect.sh"

cat >"$WORK/dies.py" <<'PY'
import os, sys
bad = "\u56fe\u50cf\u635f\u574f"
words = {"gbk": bad.encode("gbk"), "latin1": "donn\xe9es corrompues: caf\xe9".encode("latin-1")}
for n in range(3):
    words[f"cut{n}"] = ("a" * n + bad * 200).encode()
sys.stderr.buffer.write(b'Traceback (most recent call last):\n  File "train.py", line 4, in <module>\nValueError: '
                        + words[sys.argv[1]] + b"\n")
os._exit(7)
PY
for kind in gbk latin1 cut0 cut1 cut2; do
    printf 'name: %s\nresources: {gpus: 0}\nretry: {max: 0}\nrun: python3 %s/dies.py %s\n' $kind "$WORK" $kind >"$WORK/r.yaml"
    jobctl submit -q "$WORK/r.yaml" >>"$WORK/ids"
    case $kind in cut0 | cut2) continue ;; esac
    { sed 's/^name: /&setup-/; s/^run:/setup:/' "$WORK/r.yaml"; echo 'run: "true"'; } >"$WORK/s.yaml"
    jobctl submit -q "$WORK/s.yaml" >>"$WORK/ids"
done
jobctl wait $(cat "$WORK/ids") >"$WORK/waited" 2>&1 || true

# A sentence that was cut ends in a whole character; one that is no UTF-8 shows where its bytes were.
for job in $(cat "$WORK/ids"); do
    code 0 jobctl show "$job" --json
    case $(field job.name <"$WORK/out") in
    *gbk) says="'\ufffd' * 4 in r" ;;
    *latin1) says="'donn\ufffdes corrompues: caf\ufffd' in r" ;;
    *) says="r.split(';')[0][-1] in '\u56fe\u50cf\u635f\u574f' and '\ufffd' not in r" ;;
    esac
    json "o['job']['result'] == 'failed' and [a['cause'] for a in o['attempts']] == ['user_exit']"
    json "[$says for r in [o['job']['reason']] if 'exited with code 7: train.py:4: ValueError: ' in r] == [True]"
    [ "$(last_event "$job" kind=attempt_ended exit_code)" = 7 ]
    code 0 jobctl why "$job" --json
    json "'train.py:4: ValueError: ' in o['text']"
done
code 0 jobctl status -a --json
json "len(o['jobs']) == 8 and all('ValueError: ' in j['reason'] for j in o['jobs'])"
