# SPDX-License-Identifier: Apache-2.0
# Hostile frames to a running agent and a running daemon, each kind of stream twice; ATTACK_SEED repeats a run.
seed=${ATTACK_SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
/usr/bin/python3 -B "$TOP/tests/attack/frames.py" "$WORK" "$seed" 26
