# SPDX-License-Identifier: Apache-2.0
# Allocations fail, one from each place that asks for memory; every 5th, FAULTS_STRIDE times as few where it is set.
# In the scene "exhausted" each fails from that one on.
. "$TOP/tests/attack/faults.sh"
FAULTS_STRIDE=$((5 * ${FAULTS_STRIDE:-1}))
attack exhausted submit:ENOMEM accept:ENOMEM restart:ENOMEM launch:ENOMEM
