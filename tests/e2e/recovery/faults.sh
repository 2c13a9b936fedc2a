# SPDX-License-Identifier: Apache-2.0
# For some seconds, calls of daemon, agents and commands fail one at a time, others in each run
# (tests/attack/README.md); make soak runs all of them.
. "$TOP/tests/attack/faults.sh"
attack --budget "${FAULTS_S:-4}" --seed "${FAULTS_SEED:-$RANDOM$RANDOM}"
