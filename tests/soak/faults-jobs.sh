# SPDX-License-Identifier: Apache-2.0
# Every call of the scenes of a job's life of tests/attack fails once, but for allocations. FAULTS_STRIDE=K: each K-th.
. "$TOP/tests/attack/faults.sh"
attack --not-memory life launch
