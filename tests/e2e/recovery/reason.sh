# SPDX-License-Identifier: Apache-2.0
# The reason for a script's failure is its exception with the line in its own file, once; a mistake that repeats at the
# same line before the first step is retried once, not retry.max times; a last line that is not an error is not used as
# a reason; a missing module is reported with the interpreter; a failing setup shows its output.
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
. "$TOP/tests/e2e/expect.sh"

# fails NAME COMMAND [LINE...]: a job that runs the shell text and is not tried before it fails; its row is in "$WORK/out"
fails() {
    { printf 'name: %s\nworkdir: %s\n' "$1" "$WORK"; printf '%s\n' "${@:3}"; printf 'run: |\n'; sed 's/^/  /' <<<"$2"; } \
        >"$WORK/$1.yaml"
    jobctl submit -q "$WORK/$1.yaml" >"$WORK/id"
    job=$(cat "$WORK/id")
    jobctl wait "$job" >"$WORK/waited" 2>&1 || true
    code 0 jobctl show "$job" --json
}
once='retry: {max: 0}'
quick='retry: {max: 6, no_progress: 4, backoff: 10ms..20ms}'

# The line of the user's file, and what stood behind it does not matter.  Two ranks say the same: it is told once.
cat >"$WORK/net.py" <<'PY'
import json
def read(text):
    return json.loads(text)
PY
cat >"$WORK/train.py" <<'PY'
import os, sys
import net
try:
    net.read("{")
except ValueError as e:
    print("closing", flush=True)
    raise RuntimeError("no configuration") from e
PY
fails chain 'python3 train.py || { code=$?; echo "wandb: bye"; exit $code; }' "$quick" 'resources: {ranks: 2, gpus: 0, cpus: 1}'
json "'exited with code 1: train.py:7: RuntimeError: no configuration (caused by net.py:3: json.decoder.JSONDecodeError: ' in o['job']['reason']"
json "o['job']['reason'].count('no configuration') == 1"

# The same mistake twice is enough, and both `why` and the exit code say so; another one at another line is another.
json "'the same exception at the same line before the first step, 2 times in a row' in o['job']['reason']"
json "o['job']['generation'] == 2 and o['job']['exit_code'] == 93"
code 0 jobctl why "$job"
matches 'same exception at the same' cat "$WORK/out"
code 0 jobctl why "$job"
matches '    raise RuntimeError("no configuration") from e' cat "$WORK/out"        # indentation stays
fails often 'python3 train.py' 'retry: {max: 6, same_line: 0, no_progress: 3, backoff: 10ms..20ms}'
json "o['job']['generation'] == 3"
cat >"$WORK/moves.py" <<'PY'
import os
n = len(os.listdir("moves")); open(f"moves/{n}", "w")
if n == 0:
    raise KeyError("lr")

raise KeyError("lr") if n < 2 else SystemExit(0)
PY
mkdir "$WORK/moves"
fails moves 'python3 moves.py' "$quick"
json "o['job']['result'] == 'succeeded' and o['job']['generation'] == 3"

# A last line that tells no trouble is no reason; one that does is.
fails silent 'echo "[rank 1] resumed from 0"; exit 1' "$once"
json "'exited with code 1; no reason was printed' in o['job']['reason'] and 'resumed' not in o['job']['reason']"
fails words 'python3 -c "import sys; sys.exit(\"the folder of images is empty\")"' "$once"
json "'exited with code 1: the folder of images is empty' in o['job']['reason']"

# What is no Python: a command that is not there, with its line; a crash with the line of Python
fails shell $'echo begin\npyhton9 train.py --epochs 3' "$once"
json "'line 2 of the command (pyhton9 train.py --epochs 3): pyhton9: ' in o['job']['reason']"
printf 'import os\ndef f():\n    os.abort()\nf()\n' >"$WORK/aborts.py"
fails aborts 'python3 aborts.py' "$once"
json "'was killed by SIGABRT (6) at aborts.py:3' in o['job']['reason']"

# The interpreter that lacks the module, and it is not tried again
python=$(python3 -c 'import sys; print(sys.executable)')
fails module "$python -c 'import no_such_module'" "$quick"
json "'<string>:1: ModuleNotFoundError: No module named' in o['job']['reason'] and o['job']['generation'] == 1"
json "'(interpreter $python)' in o['job']['reason']"

# A setup that fails shows what it printed.
printf 'name: setup\nsetup: |\n  echo fetching wheels\n  echo "ERROR: no matching distribution" && exit 4\nrun: "true"\n%s\n' "$once" \
    >"$WORK/setup.yaml"
code 1 jobctl submit --follow "$WORK/setup.yaml"
matches '^fetching wheels$' cat "$WORK/out"
matches '^ERROR: no matching distribution$' cat "$WORK/out"
matches 'the setup exited with code 4: ERROR: no matching distribution' cat "$WORK/out" "$WORK/err"
