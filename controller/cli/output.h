/* SPDX-License-Identifier: Apache-2.0 */
/* output.h - one answer as JSON, and failures for people and programs
 *
 * With --json exactly one JSON value is printed, also for a failure.  A reader
 * that has gone away (a closed pipe) is no failure.
 */
#ifndef CONTROLLER_CLI_OUTPUT_H
#define CONTROLLER_CLI_OUTPUT_H

#include <jansson.h>

struct call;

/* Print `value`, an object to which "schema": API_SCHEMA is added in front; takes the reference. */
void output_json(struct call *call, json_t *value);

/* Print call->err: to stderr as a sentence, or all that is wrong with a spec, each with its line; or
 * as JSON. Returns the exit code. */
int output_failure(struct call *call);

/* All of stdout is out? Else ERR_SYSTEM, except for a closed pipe. -1: call->err is set. */
int output_finish(struct call *call);

/* True when stdout can take no more: a command that follows something should end. */
int output_closed(struct call *call);

#endif
