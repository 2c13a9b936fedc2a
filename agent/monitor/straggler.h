/* SPDX-License-Identifier: Apache-2.0 */
/* straggler.h - finds the rank that slows all others down, by how much, and in which phase
 *
 * Pure: no clock, no I/O.
 * Ranks of one job all show the same time per step; the slow one differs in the time of its own
 * work (data, forward, backward, optimizer), while the others wait for it. The flight pages count
 * that time. Over a window of some steps the slowest rank is compared with the next slowest:
 * without it a step would be shorter by the difference. If that exceeds STRAGGLER_PERCENT of a step
 * in two consecutive windows, the rank is reported.
 */
#ifndef AGENT_MONITOR_STRAGGLER_H
#define AGENT_MONITOR_STRAGGLER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/contract/flight.h"

struct err;
struct straggler;

enum { STRAGGLER_PERCENT = 10, STRAGGLER_WINDOW_MS = 5000, STRAGGLER_STEPS = 10 };

int straggler_create(struct straggler **out, int ranks, struct err *err);
void straggler_destroy(struct straggler *s);
void straggler_begin(struct straggler *s); /* new processes */

/* Checks all pages once; true when the report has changed. `nodes`: the name of each rank's node, "" if there is
 * only one node; NULL: one node. */
bool straggler_look(struct straggler *s, const struct flight_page *pages, const char *const *nodes, int64_t now_ms);

/* {rank, phase, percent, text, step_ms, own_ms: [], wait_ms: []} of the last window, a new
 * object; text: "rank 2 on gpu2 is a straggler: ..."; without one rank and phase are null, text is "". */
json_t *straggler_body(const struct straggler *s);

#endif
