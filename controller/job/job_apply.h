/* SPDX-License-Identifier: Apache-2.0 */
/* job_apply.h - the only way to change a job: decide (job_core.h), store, then perform
 *
 * The core derives events from an input; events and row are stored in one
 * transaction; after the commit the job in memory changes and the effect is
 * performed (effects.h).  A job that becomes done is destroyed: the caller
 * looks the job up again after job_apply().
 */
#ifndef CONTROLLER_JOB_JOB_APPLY_H
#define CONTROLLER_JOB_JOB_APPLY_H

struct core_input;
struct err;
struct job;
struct event_source;

/* See above. `told` is NULL except for agent events. On failure nothing changes. */
int job_apply(struct job *job, const struct core_input *in, const struct event_source *told,
              struct err *err);

/* Tells the job, once, that the wall clock was set or the machine was suspended since its times were told. Also done
 * before each job_apply(), so that no time is counted across a jump. */
int job_apply_clock(struct job *job, struct err *err);

#endif
