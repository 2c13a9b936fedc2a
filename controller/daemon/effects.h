/* SPDX-License-Identifier: Apache-2.0 */
/* effects.h - what each effect does; each may be done twice */
#ifndef CONTROLLER_DAEMON_EFFECTS_H
#define CONTROLLER_DAEMON_EFFECTS_H

#include "controller/job/job_fsm.h"

struct job;
struct event_source;

/* An input of the job is stored (job_apply.h): its agent hears that it is, who waits for the job looks
 * again, and the effect is performed. */
void effect_applied(struct job *job, const struct event_source *told, enum job_effect effect);

/* After DO_REPORT the job is gone. */
void effect_perform(struct job *job, enum job_effect effect);

#endif
