/* SPDX-License-Identifier: Apache-2.0 */
/* peers.h - do GPUs copy to each other rightly?  Tried with data, where the driver says that they may
 *
 * An IOMMU, a patched driver or a broken slot make copies that hang, or that arrive changed, while
 * NVML says that all is well.  So `jobctl-train peers` tries a pair, for about a second, in a process
 * of its own that is ended if it does not come back.
 */
#ifndef AGENT_PEERS_H
#define AGENT_PEERS_H

#include <jansson.h>

enum { PEERS_ALL_MS = 60000, PEERS_LAUNCH_MS = 8000 };

/* Tries the pairs of the facts whose GPUs are free, for budget_ms in all, and puts `copy` ("ok", "wrong
 * data" or "hangs") and `copy_gb_per_s` into their rows.  plan NULL: all of them; else those of its
 * ranks that NCCL would join over PCIe, where it is known to fail.  Returns how many are not "ok". */
int peers_try(json_t *facts, const json_t *plan, const char *train, int budget_ms);

#endif
