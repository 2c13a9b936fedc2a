/* SPDX-License-Identifier: Apache-2.0 */
/* code_place.h - the directory in which the ranks of a node start: a copy of the code, or the workdir */
#ifndef AGENT_CODE_CODE_PLACE_H
#define AGENT_CODE_CODE_PLACE_H

#include <jansson.h>

struct err;

/* `code`: LAUNCH's (agent/wire/wire.h), or NULL; a dir that begins with "hosted/" is relative to the state directory,
 * in which `run_dir` is hosted/KEY/ATTEMPT (agent/attempt/attach.h). Sets the spec's workdir to the copy, if the copy
 * exists; ERR_SYSTEM: the copy is missing, and the job requires it. */
int code_place_settle(json_t *spec, const json_t *code, const char *run_dir, struct err *err);

#endif
