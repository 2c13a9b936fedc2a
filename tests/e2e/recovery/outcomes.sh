# SPDX-License-Identifier: Apache-2.0
# Place, fault, and what jobctl makes of it: result, cause, number of tries, exit code, and the words of `why`
# (tests/outcomes/table.yaml). A setup that fails shows what it printed.
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
. "$TOP/tests/e2e/expect.sh"
cp "$TOP"/tests/outcomes/*.py "$WORK"
cd "$WORK"
python3 "$TOP/tests/outcomes/run.py"

code 1 jobctl submit --follow setup.yaml
matches '^fetching wheels$' cat out
matches '^ERROR: no matching distribution$' cat out
matches 'the setup exited with code 4: ERROR: no matching distribution' cat out err
