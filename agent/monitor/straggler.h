/* SPDX-License-Identifier: Apache-2.0 */
/* straggler.h - which rank slows all others down, by how much, and in which phase
 *
 * Pure: no clock, no I/O.
 * Ranks that take each step together all take the same time for it; who is slow is
 * seen in what a rank takes for its own work (data, forward, backward, optimizer), while the
 * others wait for it.  The pages count that.  Over a window of some steps the one that takes
 * longest is compared with the next: without it a step would be shorter by the difference.
 * If that is more than STRAGGLER_PERCENT of a step, in two windows in a row, it is named.
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

/* One look at all pages; true when what is said has changed. `nodes`: where each rank is, "" where there is
 * one node only; NULL: on one. */
bool straggler_look(struct straggler *s, const struct flight_page *pages, const char *const *nodes,
                    int64_t now_ms);

/* "rank 2 on gpu2 slows all down: ..."; "" = nobody does. */
const char *straggler_text(const struct straggler *s);

/* {rank, phase, percent, text, step_ms, own_ms: [], wait_ms: []} of the last window, a new object;
 * rank and phase null, text "" when nobody is slow. */
json_t *straggler_body(const struct straggler *s);

#endif
