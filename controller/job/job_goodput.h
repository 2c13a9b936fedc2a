/* SPDX-License-Identifier: Apache-2.0 */
/* job_goodput.h - where the time of a job went, from submit to done
 *
 * Pure: no clock, no I/O.
 * A plain value inside job_core, fed with its stored events only, so that a restart
 * counts the same.  While ranks live their agent counts (agent/core/goodput.h); between generations
 * the state of the job says what the time was.  That time is worth as many ranks as the next
 * generation has: it waits until they are known.
 */
#ifndef CONTROLLER_JOB_JOB_GOODPUT_H
#define CONTROLLER_JOB_JOB_GOODPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/goodput.h"

struct job_goodput {
    struct goodput spent;           /* adds up at any time */
    int64_t waiting[BUCKETS];       /* wall time that no ranks are known for yet */
    int64_t wall_ms;                /* counted so far, `waiting` included */
    int64_t mark_ms;                /* counted until here; 0: not begun */
    int64_t ranks_since_ms;         /* ranks live since then; 0: none do */
    int64_t np;                     /* of the newest generation, 0: there was none */
};

/* Nothing while ranks live. A clock that went back counts nothing. */
void job_goodput_until(struct job_goodput *a, int64_t at_ms, enum bucket bucket);

/* Ranks live; what waited is worth as many. */
void job_goodput_ranks(struct job_goodput *a, int64_t at_ms, int64_t np);

/* They are gone, and their agent told how they spent the time. */
void job_goodput_told(struct job_goodput *a, int64_t at_ms, const struct goodput *s);

/* They are gone and nobody told: `fresh` (0 to 1) of the time made new steps. */
void job_goodput_guess(struct job_goodput *a, int64_t at_ms, double fresh);

/* No ranks will come: what waits is worth as many as there were, or one. */
void job_goodput_close(struct job_goodput *a);

/* All but the time that it waited. Goodput is the productive share of it. */
int64_t job_goodput_busy_ms(const struct goodput *s);

#endif
