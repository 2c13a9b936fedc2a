/* SPDX-License-Identifier: Apache-2.0 */
/* why.h - explains a job's state in one paragraph, with evidence */
#ifndef CONTROLLER_REQUESTS_WHY_H
#define CONTROLLER_REQUESTS_WHY_H

#include <jansson.h>
#include <stdint.h>

struct daemon;
struct err;

/* {job: ROW, text, evidence: [...]}; NULL with *err set. */
json_t *why_make(struct daemon *d, int64_t id, struct err *err);

#endif
