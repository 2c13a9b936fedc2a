/* SPDX-License-Identifier: Apache-2.0 */
/* submit_code.h - records the code of a job for the request that submits it: git commit, diff, snapshot */
#ifndef CONTROLLER_SUBMIT_SUBMIT_CODE_H
#define CONTROLLER_SUBMIT_SUBMIT_CODE_H

#include <jansson.h>
#include <stdbool.h>

#include "controller/code/code_take.h"

struct call;

/* Records the code of a canonical spec. `request` (spec_file.h) locates mistakes; NULL for a retry, for which no
 * snapshot is taken. What cannot be recorded is noted in t->notes; -1 with call->err: a snapshot that the spec demands
 * cannot be taken. With -H the far host records it. The caller calls submit_code_end() after the request. */
int submit_code_take(struct code_taken *t, struct call *call, const json_t *request, const json_t *spec);

void submit_code_end(struct code_taken *t);

/* True if the hosts of this canonical spec get its code; then their own workdirs are not used. */
bool submit_code_is_sent(const json_t *spec);

/* `request` with the name of the recorded code; a new reference. */
json_t *submit_code_request(const struct code_taken *t, const json_t *request);

#endif
