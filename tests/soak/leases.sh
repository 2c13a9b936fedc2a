# SPDX-License-Identifier: Apache-2.0
# Hundreds of jobs of three users on one machine: tests/e2e/queue/leases-users.sh with LEASE_JOBS (150) jobs of each.
export LEASE_JOBS=${LEASE_JOBS:-150}
. "$TOP/tests/e2e/queue/leases-users.sh"
