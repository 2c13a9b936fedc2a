/* SPDX-License-Identifier: Apache-2.0 */
/* active_jobs.h - the jobs that are in memory: all that are not done, in order of their ids
 *
 * A job that is done is only in the store.  Ids ascend, so a new job goes to
 * the end and a look-up is a binary search.
 */
#ifndef CONTROLLER_JOB_ACTIVE_JOBS_H
#define CONTROLLER_JOB_ACTIVE_JOBS_H

#include <stddef.h>
#include <stdint.h>

#include "controller/job/job_fsm.h"

struct err;
struct job;
struct event_source;

struct active_jobs {
    struct job **jobs;          /* borrowed for reading; may move when a job is added */
    size_t       count, room;
    /* An input is stored (job_apply.h): what follows calls all that gives inputs (effects.h). */
    void       (*applied)(struct job *job, const struct event_source *told, enum job_effect effect);
};

/* Takes the job over; its id must be larger than all before. */
int active_jobs_add(struct active_jobs *r, struct job *job, struct err *err);
struct job *active_jobs_find(const struct active_jobs *r, int64_t id); /* or NULL */
/* Destroys the job. */
void active_jobs_remove(struct active_jobs *r, struct job *job);
void active_jobs_fini(struct active_jobs *r);

#endif
