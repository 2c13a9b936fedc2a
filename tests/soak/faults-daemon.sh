# SPDX-License-Identifier: Apache-2.0
# Every call of the daemon's scenes of tests/attack fails once, but for allocations: a submit, its acceptance, a start
# over living jobs, the day's copy of the store. FAULTS_STRIDE=K: each K-th call.
. "$TOP/tests/attack/faults.sh"
attack --not-memory submit accept restart snapshot
