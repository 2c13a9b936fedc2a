/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_selftest.h - tests copies and NCCL sums between pairs of GPUs with real data
 *
 * With an IOMMU, a patched driver or a broken slot, copies hang or arrive corrupted while NVML
 * reports no error; and NCCL may hang where plain copies work. So `jobctl-train peers` copies
 * between a pair for about a second, and `jobctl-train sum` lets two ranks sum by NCCL. Each test runs in separate
 * processes, which are killed at a deadline.
 */
#ifndef AGENT_PLAN_GPU_SELFTEST_H
#define AGENT_PLAN_GPU_SELFTEST_H

#include <jansson.h>
#include <stdbool.h>

enum { GPU_SELFTEST_ALL_MS = 60000, GPU_SELFTEST_LAUNCH_MS = 8000 };

/* Do gpu_selftest_try() or gpu_selftest_sum() have anything to test before this plan is
 * launched? */
bool gpu_selftest_wanted(const json_t *facts, const json_t *plan);

/* Limit for both tests at a launch; a test that takes longer counts as hanging. */
int gpu_selftest_limit_ms(void);

/* Tests the pairs of the facts whose GPUs are free, for budget_ms in all, and puts `copy` ("ok",
 * "wrong data" or "hangs") and `copy_gb_per_s` into their rows. plan NULL: all pairs; else only
 * untested pairs of its ranks that NCCL would connect over PCIe where that is known to fail.
 * Returns how many are not "ok". */
int gpu_selftest_try(json_t *facts, const json_t *plan, const char *train, int budget_ms);

/* The same for sums of two ranks, in the plan's environment: puts `sum` ("ok", "wrong data",
 * "hangs" or "fails") into the rows; of pairs connected alike, only into the first. If one is
 * not "ok", the plan's fallbacks are tried one by one, and the first that works becomes
 * `sum_needs` ("NCCL_P2P_DISABLE=1"), which the next plan sets. `again`: also repeats earlier
 * tests. Returns how many are not "ok". */
int gpu_selftest_sum(json_t *facts, const json_t *plan, const char *train, bool again, int budget_ms);

#endif
