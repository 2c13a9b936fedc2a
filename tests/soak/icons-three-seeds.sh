# SPDX-License-Identifier: Apache-2.0
# The recipe of the demo holds for three seeds.
SEEDS="1 2 3" . "$TOP/tests/e2e/0325-icons.sh"
