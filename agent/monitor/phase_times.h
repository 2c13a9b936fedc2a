/* SPDX-License-Identifier: Apache-2.0 */
/* phase_times.h - how long each phase of a step usually takes, for each batch size
 *
 * Pure: no clock, no I/O.
 * A histogram per phase and size, with the percentiles of earlier attempts. Memory is fixed: sizes beyond the table
 * count for all sizes only.
 */
#ifndef AGENT_MONITOR_PHASE_TIMES_H
#define AGENT_MONITOR_PHASE_TIMES_H

#include <jansson.h>
#include <stdint.h>

#include "engine/contract/flight.h"

enum { PHASE_TIMES_SIZES = 64 }; /* the first one covers all sizes */

/* Durations of batches of one size. */
struct phase_times_size {
    uint64_t size; /* height << 32 | width; 0: all sizes */
    uint64_t hist[FLIGHT_PHASES][FLIGHT_BINS];
    uint64_t before_ns[FLIGHT_PHASES]; /* 99.9th percentile of earlier attempts, 0 = not known */
};

/* Zeros are a valid, empty value. */
struct phase_times {
    int                     more; /* sizes after the first */
    struct phase_times_size size[PHASE_TIMES_SIZES];
};

/* A phase has ended; unknown phases are ignored. */
void phase_times_add(struct phase_times *t, uint64_t size, uint64_t phase, uint64_t took_ns);

/* The 99.9th percentile for batches of this size, else of all sizes, in ms; 0: not known. */
int64_t phase_times_usual_ms(const struct phase_times *t, uint64_t size, enum flight_phase phase);

/* {PHASE: ms, ..., "32x32": {PHASE: ms, ...}}: a new object. */
json_t *phase_times_json(const struct phase_times *t);

/* Reads the percentiles of such an object; other keys are ignored. */
void phase_times_read(struct phase_times *t, const json_t *learned);

#endif
