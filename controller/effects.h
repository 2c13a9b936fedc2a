/* SPDX-License-Identifier: Apache-2.0 */
/* effects.h - what each effect does; each may be done twice */
#ifndef CONTROLLER_EFFECTS_H
#define CONTROLLER_EFFECTS_H

#include <stdint.h>

#include "controller/job_fsm.h"

struct daemon;
struct err;
struct job;

/* After DO_REPORT the job is gone. */
void effect_perform(struct job *job, enum job_effect effect);

/* jobs/<id>/ with spec.yaml and spec.json, from the store where they are missing. Files cost more
 * than a commit does: they are made when somebody looks, at the latest when the job starts. */
int effect_files(const struct daemon *d, int64_t id, struct err *err);

#endif
