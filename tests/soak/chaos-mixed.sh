# SPDX-License-Identifier: Apache-2.0
# Ten minutes of everything at once (tests/attack/chaos.py): kills, frozen processes, a full disk, damaged files, a lost
# store, and users who submit, cancel, remove and prune meanwhile. CHAOS_SEED and CHAOS_S say which and how long.
# alone: it measures nothing, but comes last, when nothing else explains what it finds
. "$TOP/tests/e2e/wait.sh"
seed=${CHAOS_SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
/usr/bin/python3 -B "$TOP/tests/attack/chaos.py" "$WORK" "$seed" "${CHAOS_S:-600}"
