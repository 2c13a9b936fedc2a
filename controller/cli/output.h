/* SPDX-License-Identifier: Apache-2.0 */
/* output.h - prints one answer as JSON, and errors as text or JSON
 *
 * With --json exactly one JSON value is printed, also on failure.  A closed
 * pipe on stdout is not a failure.
 */
#ifndef CONTROLLER_CLI_OUTPUT_H
#define CONTROLLER_CLI_OUTPUT_H

#include <jansson.h>

struct call;

/* Prints the object `value` with "schema": API_SCHEMA added in front; takes the reference. */
void output_json(struct call *call, json_t *value);

/* Prints call->err to stderr, or all mistakes of a spec, each with its line; or as JSON. Returns
 * the exit code. */
int output_failure(struct call *call);

/* Flushes stdout. -1 (ERR_SYSTEM in call->err) if a write failed, except on a closed pipe. */
int output_finish(struct call *call);

/* True if stdout is closed or failed: a command that follows a job should end. */
int output_closed(struct call *call);

#endif
