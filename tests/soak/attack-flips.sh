# SPDX-License-Identifier: Apache-2.0
# Damage to any file of a home, a hundred and fifty times, while jobs run and while the daemon is down; what must hold
# is in tests/attack/invariants.py. ATTACK_SEED repeats a run, or with ATTACK_ROUNDS=1 a round.
. "$TOP/tests/e2e/wait.sh"
seed=${ATTACK_SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
/usr/bin/python3 -B "$TOP/tests/attack/flips.py" "$WORK" "$seed" "${ATTACK_ROUNDS:-150}"
