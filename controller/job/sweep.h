/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.h - a sweep or an array: which of its members is next, and how many are in which state
 *
 * Pure: no clock, no I/O.
 * A sweep is one job that waits in the queue for its next member: when the scheduler would start it, the member is
 * stored as a job of its own and starts instead.  So members that have not started cost nothing.
 *
 * With launch: slurm members start in waves, each of which becomes a job array (controller/remote/slurm_array.h), of
 * which Slurm runs max_parallel at once.  A wave has as many members as the sweep may have in Slurm's queue.  It starts
 * when all before it have ended, or when half of max_parallel have and it needs no separate limit: so no more than
 * max_parallel run, although Slurm limits each array by itself.
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
    bool              in_waves;
    int64_t           attempts;         /* members with an attempt that lives */
    int               wave;             /* the newest wave; 0: none yet */
    int64_t           size, to_start;   /* its members, and those that have not started */
};

/* NULL: no memory, or the spec is not sound. */
struct sweep *sweep_create(const json_t *spec, struct err *err);
void sweep_destroy(struct sweep *s);    /* accepts NULL */

/* The index of the next member; -1: all have started. */
int sweep_next(const struct sweep *s);

/* True if max_parallel allows the next member to start. */
bool sweep_may_start(const struct sweep *s);

/* All members are done. */
bool sweep_is_over(const struct sweep *s);

/* A member has started, or is done; withdraw: it could not be stored. */
void sweep_started(struct sweep *s, int index);
void sweep_withdraw(struct sweep *s, int index);
void sweep_ended(struct sweep *s, enum job_result result);

/* An attempt of a member has started (by: 1) or ended (-1). */
void sweep_attempt(struct sweep *s, int by);

/* True if a member that has to restart may do so beside the others. */
bool sweep_has_place(const struct sweep *s);

/* Its members that have not started. */
int64_t sweep_left(const struct sweep *s);

/* The result of a sweep that is over: succeeded if all members did. */
enum job_result sweep_result(const struct sweep *s);

/* "2 running, 3 succeeded, 5 not started" (of launch: slurm: "2 in Slurm, ..."); "" if none has started. */
void sweep_text(char *out, size_t size, const struct sweep *s);

#endif
