/* SPDX-License-Identifier: Apache-2.0 */
/* sched.h - who runs next, and why everybody else waits
 *
 * Pure: no clock, no I/O.
 * A queue and what the node has, in; a verdict per job, out.  Order is
 * priority, then id.  A job that waits only for slots keeps what is free of
 * them for itself, so that nobody behind it can starve it; a job that waits
 * for something else (held, dependency, back-off) blocks nobody.
 */
#ifndef CONTROLLER_JOB_SCHED_H
#define CONTROLLER_JOB_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sched_word {
    SCHED_NONE,         /* not judged yet */
    SCHED_PLACE,        /* start it now */
    SCHED_HELD,
    SCHED_AFTER,        /* `other` is not done yet */
    SCHED_AFTER_FAILED, /* `other` will never succeed: the job cannot start */
    SCHED_BACKOFF,      /* until not_before_ms */
    SCHED_CPUS,         /* first in line; `other` slots are free */
    SCHED_GPUS,
    SCHED_TURN,         /* behind job `other`, `place` jobs before it */
    SCHED_HOST,         /* job `other` has a host of it, and none is free */
    SCHED_TOO_BIG,      /* no node has so much; `other` is what the largest has */
    SCHED_WORDS
};

enum dep_state { DEP_SUCCEEDED, DEP_OPEN, DEP_FAILED };  /* succeeded, or none at all */

struct sched_job {
    /* in */
    int64_t        id;
    int64_t        priority;
    bool           held;
    int64_t        not_before_ms;
    int64_t        cpus;            /* slots needed; -1: all of a node */
    int64_t        gpus;            /* -1: all of a node */
    enum dep_state dep;             /* the worst of its dependencies ... */
    int64_t        dep_id;          /* ... and which */
    void          *owner;
    /* out */
    enum sched_word word;
    int64_t         other;
    int64_t         place;
    int64_t         take_cpus;      /* SCHED_PLACE: what it was given */
    int64_t         take_gpus;
};

struct sched_node {
    int64_t cpus, cpus_free;
    int64_t gpus, gpus_free;
};

/* Sorts `jobs` and judges each; *node is what is left free afterwards. Returns
 * the next time at which a back-off ends, or -1. O(n log n). */
int64_t sched_run(struct sched_job *jobs, size_t count, struct sched_node *node, int64_t now_ms);

/* Why the job waits, one sentence. */
void sched_text(char *out, size_t size, const struct sched_job *job, int64_t now_ms);

#endif
