/* SPDX-License-Identifier: Apache-2.0 */
/* probe_cache.h - what was tried on this machine once, and need not be tried before every attempt
 *
 * Trying whether GPUs work together takes seconds, or a deadline where they do not
 * (agent/plan/gpu_selftest.h). The outcome is kept in a file of the machine's name in the state
 * directory, with what it depends on: the kernel's start, driver, NCCL, and the GPUs.  Once one of
 * these is another, all is tried anew; `jobctl doctor` always does.
 */
#ifndef AGENT_PLAN_PROBE_CACHE_H
#define AGENT_PLAN_PROBE_CACHE_H

#include <jansson.h>

/* What is known goes into the rows of `pairs` that do not have it yet. */
void probe_cache_recall(json_t *facts, const char *dir);

/* Of a failure nothing comes but that it is tried again. */
void probe_cache_keep(const json_t *facts, const char *dir);

#endif
