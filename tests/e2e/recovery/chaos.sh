# SPDX-License-Identifier: Apache-2.0
# Random faults on a job of four ranks, every kind at least once; it ends with the bits of an undisturbed run. CHAOS_S,
# CHAOS_PAUSE_S and CHAOS_SEED set duration, pause and seed.
seed=${CHAOS_SEED:-$(date +%s)}
/usr/bin/python3 "$TOP/tests/payload/chaos.py" "${CHAOS_S:-22}" "${CHAOS_PAUSE_S:-1}" "$seed" "$WORK" \
    "$TOP/templates/data/tango-icons"
