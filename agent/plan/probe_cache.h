/* SPDX-License-Identifier: Apache-2.0 */
/* probe_cache.h - cached results of GPU self-tests, so they do not run before every attempt
 *
 * Self-tests of GPU pairs take seconds, or a deadline if they fail (agent/plan/gpu_selftest.h). The
 * results are kept in a file per host name in the state directory, with the state they depend on:
 * boot id, driver, NCCL, and GPUs. If any of these changes, all pairs are tested again; `jobctl
 * doctor` always tests.
 */
#ifndef AGENT_PLAN_PROBE_CACHE_H
#define AGENT_PLAN_PROBE_CACHE_H

#include <jansson.h>

/* Fills cached results into rows of `pairs` that lack them. */
void probe_cache_recall(json_t *facts, const char *dir);

/* Stores the results. A failure is ignored: the next attempt tests again. */
void probe_cache_keep(const json_t *facts, const char *dir);

#endif
