/* SPDX-License-Identifier: Apache-2.0 */
/* job_apply.h - the only way to change a job: decide (job_core.h), store, then perform
 *
 * The core derives events from an input; events and row are stored in one
 * transaction, together with what other inputs of the same turn of the loop have
 * left there (commit_group.h); after the commit the effect is performed (effects.h).
 * Events of agents without an effect wait for the end of the turn.  A job that becomes done is destroyed: the caller
 * looks the job up again after job_apply().
 */
#ifndef CONTROLLER_JOB_JOB_APPLY_H
#define CONTROLLER_JOB_JOB_APPLY_H

#include <jansson.h>

struct core_input;
struct err;
struct job;
struct event_source;

/* See above. `told` is NULL except for agent events. On failure nothing changes; if work that waits for the end of the
 * turn fails there, see active_jobs.h. */
int job_apply(struct job *job, const struct core_input *in, const struct event_source *told, struct err *err);

/* Another spec for a job that has not started. All borrowed. */
struct job_edit {
    struct job   *job;          /* made by job_create() from the new spec; has the old one afterwards */
    const char   *yaml, *canonical;
    const json_t *body;         /* of the event */
};

/* The same with CORE_EDIT: event, row and both texts of the spec are stored in one transaction. The caller has taken
 * the job out of the queue (fleet_take_out()), and puts it back if this fails. */
int job_apply_edit(struct job *job, const struct job_edit *edit, struct err *err);

/* Records once, in the job's events, that the wall clock was set or the machine suspended since its times were taken.
 * Also done before each job_apply(), so that no time is counted across a jump. */
int job_apply_clock(struct job *job, struct err *err);

#endif
