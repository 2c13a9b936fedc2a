# SPDX-License-Identifier: Apache-2.0
# Three minutes of random faults, ten seconds apart at most; it ends with the bits of an undisturbed run.
CHAOS_S=180 CHAOS_PAUSE_S=10 . "$TOP/tests/e2e/recovery/chaos.sh"
