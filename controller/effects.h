/* SPDX-License-Identifier: Apache-2.0 */
/* effects.h - what each effect does; each may be done twice */
#ifndef CONTROLLER_EFFECTS_H
#define CONTROLLER_EFFECTS_H

#include "controller/job_fsm.h"

struct err;
struct job;

/* After DO_REPORT the job is gone. */
void effect_perform(struct job *job, enum job_effect effect);

/* jobs/<id>/ with spec.yaml and spec.json, from the store where they are missing. */
int effect_files(const struct job *job, struct err *err);

#endif
