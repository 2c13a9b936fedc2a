/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.h - a sweep or an array: which of its members is next, and how many are in which state
 *
 * Pure: no clock, no I/O.
 * A sweep is one job that waits in the queue for its next member: when the scheduler would start it, the member is
 * stored as a job of its own and starts instead.  So members that have not started cost nothing.
 */
#ifndef CONTROLLER_JOB_SWEEP_H
#define CONTROLLER_JOB_SWEEP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "controller/job/job_core.h"
#include "controller/spec/index_list.h"

struct err;

struct sweep {
    json_t           *spec;             /* of the sweep, canonical */
    struct index_list indices;
    int               last;             /* the newest index that has started; -1: none */
    int64_t           max_parallel;
    int64_t           live;             /* members that have started and are not done */
    int64_t           done[RESULTS];
};

/* NULL: no memory, or the spec is not sound. */
struct sweep *sweep_create(const json_t *spec, struct err *err);
void sweep_destroy(struct sweep *s);    /* accepts NULL */

/* The index of the next member; -1: all have started. */
int sweep_next(const struct sweep *s);

/* May the next member start, as far as max_parallel allows? */
bool sweep_may_start(const struct sweep *s);

/* All members are done. */
bool sweep_is_over(const struct sweep *s);

/* A member has started, or is done. */
void sweep_started(struct sweep *s, int index);
void sweep_ended(struct sweep *s, enum job_result result);

/* Its members that have not started. */
int64_t sweep_left(const struct sweep *s);

/* The result of a sweep that is over: succeeded if all members did. */
enum job_result sweep_result(const struct sweep *s);

/* "2 running, 3 succeeded, 5 not started"; "" if none has started. */
void sweep_text(char *out, size_t size, const struct sweep *s);

#endif
