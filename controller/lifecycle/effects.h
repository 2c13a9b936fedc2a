/* SPDX-License-Identifier: Apache-2.0 */
/* effects.h - performs the effects of job inputs; each is idempotent */
#ifndef CONTROLLER_LIFECYCLE_EFFECTS_H
#define CONTROLLER_LIFECYCLE_EFFECTS_H

#include "controller/job/job_fsm.h"

struct job;
struct event_source;

/* Called after an input was stored (job_apply.h): acknowledges it to the agent, wakes requests that
 * wait for the job, and performs the effect. */
void effect_applied(struct job *job, const struct event_source *told, enum job_effect effect);

/* DO_REPORT destroys the job. */
void effect_perform(struct job *job, enum job_effect effect);

#endif
