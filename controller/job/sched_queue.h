/* SPDX-License-Identifier: Apache-2.0 */
/* sched_queue.h - the waiting jobs, ordered so that a scheduler pass reads few that cannot start
 *
 * Pure: no clock, no I/O.
 * A pass starts the same jobs as sched_run() (sched.h), but looks only at those that start and at those that
 * reserve slots, of which there are at most as many as slots: a queue of 20,000 jobs costs it no more than one
 * of 20.  Jobs that wait for another job or are held are put aside, back-offs are ordered by their end, and
 * jobs that need the same slots wait in one line by priority and id.
 */
#ifndef CONTROLLER_JOB_SCHED_QUEUE_H
#define CONTROLLER_JOB_SCHED_QUEUE_H

#include "controller/job/job_order.h"
#include "controller/job/sched.h"

struct sched_line;

/* Zeroed: empty. */
struct sched_queue {
    struct sched_line *lines;       /* one per need of slots */
    size_t             nlines;
    struct job_order   backoffs, refused;
    struct sched_job  *starts;      /* of the latest pass: copies, each SCHED_PLACE or SCHED_AFTER_FAILED */
    size_t             nstarts, room;
    size_t             visited;     /* jobs that passes looked at, for tests */
};

/* Files a job by its `in` values, which must not change until it is dropped; the job must stay where it is.
 * -1: out of memory, the job is not filed. */
int sched_queue_put(struct sched_queue *q, struct sched_job *job);
/* Accepts a job that is not filed. */
void sched_queue_drop(struct sched_queue *q, struct sched_job *job);

/* Finds the jobs to start now, in order, and those whose dependency failed: q->starts, valid until the next pass.
 * They stay filed. *node returns what remains free, *wake when the next back-off ends, or -1. Returns -1 if out of
 * memory. */
int sched_queue_pass(struct sched_queue *q, struct sched_node *node, int64_t now_ms, int64_t *wake);

void sched_queue_fini(struct sched_queue *q);

#endif
