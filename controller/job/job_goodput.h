/* SPDX-License-Identifier: Apache-2.0 */
/* job_goodput.h - how the time of a job was spent, from submit to done
 *
 * Pure: no clock, no I/O.
 * A plain value inside job_core, computed from stored events only, so that a restart
 * yields the same numbers.  While ranks live their agent counts (agent/core/goodput.h); between
 * generations the job's state decides the bucket.  That time is multiplied by the ranks of the
 * next generation, so it is held back until their number is known.
 */
#ifndef CONTROLLER_JOB_JOB_GOODPUT_H
#define CONTROLLER_JOB_JOB_GOODPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/goodput.h"

struct job_goodput {
    struct goodput spent;           /* rank-time per bucket; consistent at any time */
    int64_t waiting[BUCKETS];       /* wall time held back until the next np is known */
    int64_t wall_ms;                /* counted so far, `waiting` included */
    int64_t mark_ms;                /* counted up to this time; 0: not begun */
    int64_t ranks_since_ms;         /* ranks live since then; 0: no ranks */
    int64_t np;                     /* of the newest generation, 0: none yet */
    int64_t disk_ms;                /* of these ranks, so far: in waits for a full disk that are over */
    int64_t disk_since_ms;          /* since when they wait for a full disk; 0: they do not */
};

/* Charges the time up to at_ms to the bucket; no effect while ranks live or after a clock step
 * back. */
void job_goodput_until(struct job_goodput *a, int64_t at_ms, enum bucket bucket);

/* Ranks live from now on; held-back time is multiplied by np. */
void job_goodput_ranks(struct job_goodput *a, int64_t at_ms, int64_t np);

/* The ranks start or end a wait for a full disk. */
void job_goodput_disk(struct job_goodput *a, int64_t at_ms, bool waits);

/* The ranks ended; their agent reported how the time was spent. */
void job_goodput_told(struct job_goodput *a, int64_t at_ms, const struct goodput *s);

/* The ranks ended without a report: `fresh` (0 to 1) of the time, except waits for a disk, made new steps. */
void job_goodput_guess(struct job_goodput *a, int64_t at_ms, double fresh);

/* No more ranks: held-back time is multiplied by the last np, or by 1. */
void job_goodput_close(struct job_goodput *a);

/* All time except waiting. Goodput is the productive share of it. */
int64_t job_goodput_busy_ms(const struct goodput *s);

#endif
