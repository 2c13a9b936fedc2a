/* SPDX-License-Identifier: Apache-2.0 */
/* sched.h - which job starts next, and why each other job waits
 *
 * Pure: no clock, no I/O.
 * Input: the queue and the node's resources; output: a verdict per job.  Order
 * is priority, then id.  A job that waits only for slots reserves the free ones,
 * so that later jobs cannot starve it; a job that waits for anything else
 * (held, dependency, back-off, directory) reserves nothing. Passes use sched_queue.h, which starts the same jobs
 * without looking at the rest; this file finds for each job why it waits.
 */
#ifndef CONTROLLER_JOB_SCHED_H
#define CONTROLLER_JOB_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "controller/spec/spec_after.h"

enum sched_word {
    SCHED_NONE,         /* not scheduled yet */
    SCHED_PLACE,        /* start it now */
    SCHED_HELD,
    SCHED_AFTER,        /* dependency `other` is not done yet */
    SCHED_AFTER_FAILED, /* dependency `other` did not succeed: the job cannot start */
    SCHED_BACKOFF,      /* until not_before_ms */
    SCHED_CPUS,         /* next in queue; `other` slots are free */
    SCHED_GPUS,
    SCHED_TURN,         /* queued behind job `other`; `place` jobs are ahead */
    SCHED_HOST,         /* none of its hosts is free; job `other` uses one */
    SCHED_DIR,          /* job `other` writes the checkpoint.dir that it names */
    SCHED_TOO_BIG,      /* more CPU slots than a node has: `other` */
    SCHED_WORDS
};

/* Where sched_queue.h has filed a job. */
enum sched_shelf { SHELF_NONE, SHELF_ASIDE, SHELF_REFUSED, SHELF_BACKOFF, SHELF_LINE };

enum dep_state { DEP_SUCCEEDED /* or none */, DEP_OPEN, DEP_FAILED };

struct sched_job {
    /* in */
    int64_t        id;
    int64_t        order;           /* among jobs of a priority; 0: that of its id (sched_order()) */
    int64_t        priority;
    bool           held;
    enum dep_state dep;             /* the worst state of its dependencies, and what that one must have done ... */
    enum spec_after dep_kind;
    int64_t        not_before_ms;   /* on the clock of now_ms, which must not jump */
    int64_t        cpus;            /* slots needed; -1: all of a node */
    int64_t        gpus;            /* -1: all of a node */
    int64_t        dep_id;          /* ... and the job in that state ... */
    int64_t        writer;          /* the job that writes its checkpoint.dir, or 0 */
    void          *owner;
    enum sched_shelf shelf;         /* of sched_queue.h, and only written there */
    /* out */
    enum sched_word word;
    int64_t         other;
    int64_t         place;
    int64_t         take_cpus;      /* SCHED_PLACE: slots assigned */
    int64_t         take_gpus;
};

struct sched_node {
    int64_t cpus, cpus_free;
    int64_t gpus, gpus_free;
};

/* The place of a job among those of its priority: by id, but a member of sweep `sweep` (0: none) comes before the sweep
 * and after all jobs submitted before that; members are ordered by index. */
int64_t sched_order(int64_t id, int64_t sweep, int64_t index);

/* What a job takes from a node: -1 is all of it, and so are more GPUs than the node is known to have, since its agent
 * counts them again. A job that needs all CPU slots but only some GPUs takes the share of those GPUs. */
struct sched_need {
    int64_t cpus, gpus;
};
struct sched_need sched_need(int64_t cpus, int64_t gpus, const struct sched_node *node);

/* Sorts `jobs` and sets the verdict of each; *node returns what remains free. Returns
 * the earliest time at which a back-off ends, or -1. O(n log n). */
int64_t sched_run(struct sched_job *jobs, size_t count, struct sched_node *node, int64_t now_ms);

/* Writes why the job waits, as one sentence. */
void sched_text(char *out, size_t size, const struct sched_job *job, int64_t now_ms);

#endif
