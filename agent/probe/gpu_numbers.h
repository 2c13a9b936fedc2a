/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_numbers.h - do the GPUs still have the numbers that a plan gives them? */
#ifndef AGENT_PROBE_GPU_NUMBERS_H
#define AGENT_PROBE_GPU_NUMBERS_H

#include <jansson.h>
#include <stdbool.h>

/* Compares by UUID with what the driver lists in /proc now, in the order of PCI addresses: a GPU that has fallen off
 * the bus moves those behind it. `ranks` are those of a plan (agent/plan/plan.h). What is not listed holds. */
bool gpu_numbers_hold(const json_t *ranks);

#endif
