/* SPDX-License-Identifier: Apache-2.0 */
/* job_core_internal.h - shared by job_core*.c only */
#ifndef CONTROLLER_JOB_JOB_CORE_INTERNAL_H
#define CONTROLLER_JOB_JOB_CORE_INTERNAL_H

#include "controller/job/job_core.h"


/* Applies one event to the job, and sets *effect where a transition has one. Errors: ERR_CONFLICT if the event does not
 * fit the state of the job; the job may then be half changed, so the caller passes a copy. */
int job_core_apply(struct job_core *c, const struct core_event *e, enum job_effect *effect, struct err *err);

/* Charges the time since the last event while no ranks live. */
void job_core_charge(struct job_core *c, int64_t at_ms);

#endif
