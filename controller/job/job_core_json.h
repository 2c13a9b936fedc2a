/* SPDX-License-Identifier: Apache-2.0 */
/* job_core_json.h - a job's core (job_core.h) as a JSON object, and back
 *
 * Pure: no clock, no I/O.
 */
#ifndef CONTROLLER_JOB_JOB_CORE_JSON_H
#define CONTROLLER_JOB_JOB_CORE_JSON_H

#include <jansson.h>

struct err;
struct job_core;

/* NULL: no memory. */
json_t *job_core_json_make(const struct job_core *core);

/* Sets all of *core but its id. -1: a field is missing or of another type; *core is then unchanged. */
int job_core_json_read(struct job_core *core, const json_t *json, struct err *err);

#endif
