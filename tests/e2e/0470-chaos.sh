# SPDX-License-Identifier: Apache-2.0
# Forty seconds of random faults on a job of four ranks; it ends with the bits of an undisturbed run.
# CHAOS_S, CHAOS_PAUSE_S and CHAOS_SEED say how long, how often and which.
seed=${CHAOS_SEED:-$(date +%s)}
/usr/bin/python3 "$TOP/tests/payload/chaos.py" "${CHAOS_S:-40}" "${CHAOS_PAUSE_S:-2}" "$seed" "$WORK" \
    "$TOP/templates/data/tango-icons"
