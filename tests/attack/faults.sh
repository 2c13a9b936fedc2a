# SPDX-License-Identifier: Apache-2.0
# faults.sh - common parts of the fault tests: . "$TOP/tests/attack/faults.sh"
library=$(dirname "$BIN")/obj/tests/attack/faults.so
[ -e "$library" ] || { echo "tests/attack/faults.so is not built: make e2e builds it"; exit 77; }
mkdir "$WORK/faults"
# attack OPTION... [SCENE...]
attack() { python3 "$TOP/tests/attack/faults.py" --stride "${FAULTS_STRIDE:-1}" "$BIN" "$library" "$WORK/faults" "$@"; }
