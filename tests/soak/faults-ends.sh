# SPDX-License-Identifier: Apache-2.0
# Every call of the scenes of tests/attack that end a job, and of a training, fails once, but for allocations.
# FAULTS_STRIDE=K: each K-th call.
. "$TOP/tests/attack/faults.sh"
attack --not-memory cancel cancelagent remove train
