/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_selftest.h - do GPUs work together rightly?  Tried with data, where the driver says that they
 * may
 *
 * An IOMMU, a patched driver or a broken slot make copies that hang, or that arrive changed, while
 * NVML says that all is well; and NCCL may stand still where plain copies work.  So `jobctl-train
 * peers` copies between a pair for about a second, and `jobctl-train sum` has two ranks add up by
 * NCCL, each in processes of its own that are ended if they do not come back.
 */
#ifndef AGENT_PLAN_GPU_SELFTEST_H
#define AGENT_PLAN_GPU_SELFTEST_H

#include <jansson.h>
#include <stdbool.h>

enum { GPU_SELFTEST_ALL_MS = 60000, GPU_SELFTEST_LAUNCH_MS = 8000 };

/* Is there something for gpu_selftest_try() or gpu_selftest_sum() before this plan is launched? */
bool gpu_selftest_wanted(const json_t *facts, const json_t *plan);

/* So long both may take together at a launch; who takes longer does not end. */
int gpu_selftest_limit_ms(void);

/* Tries the pairs of the facts whose GPUs are free, for budget_ms in all, and puts `copy` ("ok", "wrong
 * data" or "hangs") and `copy_gb_per_s` into their rows.  plan NULL: all of them; else those of its
 * ranks that NCCL would join over PCIe, where it is known to fail, and that were not tried before.
 * Returns how many are not "ok". */
int gpu_selftest_try(json_t *facts, const json_t *plan, const char *train, int budget_ms);

/* The same for sums of two ranks, in the plan's environment: puts `sum` ("ok", "wrong data", "hangs"
 * or "fails") into the rows, of pairs that are alike into the first.  Where one is not "ok", the
 * plan's remedies are tried one by one, and the first with which it is becomes `sum_needs`
 * ("NCCL_P2P_DISABLE=1"); the next plan sets it.  `again`: also those that were tried before.
 * Returns how many are not "ok". */
int gpu_selftest_sum(json_t *facts, const json_t *plan, const char *train, bool again,
                     int budget_ms);

#endif
