# SPDX-License-Identifier: Apache-2.0
# A bit is flipped in a file in a job's directory (tests/attack/beside.py): each file of a script, at two places, in the
# states that a job can be in; and the files that a restarted training reads again. All places: make soak.
. "$TOP/tests/e2e/wait.sh"
export BESIDE_SECRET='of this test'
/usr/bin/python3 -B "$TOP/tests/attack/beside.py" "$WORK" 2 held setup retried "agent killed" "daemon killed" "store lost"
rm -rf "$JOBCTL_HOME"
BESIDE_FILES='/lease.json|/[0-9]+/spec.json' \
    /usr/bin/python3 -B "$TOP/tests/attack/beside.py" "$WORK" 3 "rank killed" "trainer's agent killed"
