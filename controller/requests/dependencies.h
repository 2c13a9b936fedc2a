/* SPDX-License-Identifier: Apache-2.0 */
/* dependencies.h - the jobs that a spec names in `after`, as ids */
#ifndef CONTROLLER_REQUESTS_DEPENDENCIES_H
#define CONTROLLER_REQUESTS_DEPENDENCIES_H

#include <jansson.h>
#include <stdint.h>

struct daemon;
struct err;

/* Replaces `after` of a canonical spec by ids, and adds their lineage. Each must be a job that can still end as
 * required, and older than job `of`, to which the spec belongs: so no two jobs wait for each other. */
int dependencies_resolve(json_t *spec, struct daemon *d, int64_t of, struct err *err);

#endif
