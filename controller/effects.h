/* SPDX-License-Identifier: Apache-2.0 */
/* effects.h - what each effect does; each may be done twice */
#ifndef CONTROLLER_EFFECTS_H
#define CONTROLLER_EFFECTS_H

#include "controller/job_fsm.h"

struct job;

/* After DO_REPORT the job is gone. */
void effect_perform(struct job *job, enum job_effect effect);

#endif
