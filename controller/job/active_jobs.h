/* SPDX-License-Identifier: Apache-2.0 */
/* active_jobs.h - the jobs in memory: all that are not done, ordered by id
 *
 * A finished job exists in the store only.  Ids ascend: a new job is appended,
 * and a look-up is a binary search.
 */
#ifndef CONTROLLER_JOB_ACTIVE_JOBS_H
#define CONTROLLER_JOB_ACTIVE_JOBS_H

#include <stddef.h>
#include <stdint.h>

#include "controller/job/job_fsm.h"
#include "controller/job/job_order.h"

struct core_output;
struct err;
struct job;
struct event_source;

struct active_jobs {
    struct job **jobs;          /* borrowed for reading; may move when a job is added */
    size_t       count, room;
    struct job_order begun;     /* those that have an attempt: (id, 0) */
    /* Called after an input was stored (job_apply.h): effects.h. */
    void       (*applied)(struct job *job, const struct event_source *told, enum job_effect effect);
    /* Called with the events of an input that was written, before `applied`; NULL: they are not counted. */
    void       (*noted)(struct job *job, const struct core_output *out);
    /* Called when the agent's newest events could not be stored after all (commit_group.h). */
    void       (*lost)(struct job *job);
};

/* Takes ownership of the job; its id must be larger than all others. */
int active_jobs_add(struct active_jobs *r, struct job *job, struct err *err);
/* Files the job under `begun` once it has an attempt. -1: out of memory. */
int active_jobs_note(struct active_jobs *r, struct job *job);
/* i < r->begun.count */
struct job *active_jobs_begun(const struct active_jobs *r, size_t i);
struct job *active_jobs_find(const struct active_jobs *r, int64_t id); /* or NULL */
/* Removes and destroys the job. */
void active_jobs_remove(struct active_jobs *r, struct job *job);
void active_jobs_fini(struct active_jobs *r);

#endif
