/* SPDX-License-Identifier: Apache-2.0 */
/* job_apply.h - the only way in which a job changes: the core's decision, stored, then done
 *
 * The core says what follows from an input, events and row go into the store
 * in one transaction, and only after the commit the job in memory changes and
 * what follows is done (effects.h).  A job that is done leaves the roster:
 * after job_apply() the caller looks it up again.
 */
#ifndef CONTROLLER_JOB_JOB_APPLY_H
#define CONTROLLER_JOB_JOB_APPLY_H

struct core_input;
struct err;
struct job;
struct event_source;

/* See above. `told` is NULL but for events of an agent. Failing changes nothing. */
int job_apply(struct job *job, const struct core_input *in, const struct event_source *told,
              struct err *err);

#endif
