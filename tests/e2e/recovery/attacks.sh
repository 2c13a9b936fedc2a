# SPDX-License-Identifier: Apache-2.0
# A small, varying part of tests/attack/: damage to files of a home (flips.py), and hostile frames to an agent and to
# the daemon (frames.py). The printed seed repeats it: ATTACK_SEED=N. make soak runs all of it.
. "$TOP/tests/e2e/expect.sh"
seed=${ATTACK_SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
mkdir "$WORK/frames"
/usr/bin/python3 -B "$TOP/tests/attack/frames.py" "$WORK/frames" "$seed" 1
stop_daemon
rm -rf "$JOBCTL_HOME"
ATTACK_STEPS=300 /usr/bin/python3 -B "$TOP/tests/attack/flips.py" "$WORK" "$seed" 2 1
