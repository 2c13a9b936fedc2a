# SPDX-License-Identifier: Apache-2.0
# A bit is flipped in each file in a job's directory, at eight places, in each state of the job
# (tests/attack/beside.py).
. "$TOP/tests/e2e/wait.sh"
/usr/bin/python3 -B "$TOP/tests/attack/beside.py" "$WORK" 8
