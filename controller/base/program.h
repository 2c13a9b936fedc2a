/* SPDX-License-Identifier: Apache-2.0 */
/* program.h - runs a sibling program (jobctl-agent, jobctl-train) on a spec */
#ifndef CONTROLLER_BASE_PROGRAM_H
#define CONTROLLER_BASE_PROGRAM_H

#include <jansson.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>

struct buf;
struct err;

enum { PROGRAM_PATH = PATH_MAX };

/* Writes the canonical spec to a new temporary file, which the caller removes. */
int program_spec_file(char path[PROGRAM_PATH], const json_t *spec, struct err *err);

/* Runs `name` with the NULL-terminated arguments and waits for its end; it inherits our stderr.
 * Returns the exit code, 256 or more if a signal ended it, or -1. */
int program_run(const char *name, const char *const *words, struct buf *out, struct err *err);

/* Without arguments, but with `request`, one line of JSON, as input; ignores the exit status. */
int program_tell(const char *name, const json_t *request, struct buf *out, struct err *err);

/* Like program_run(); its stdout goes to `to`. */
int program_pass(const char *name, const char *const *words, FILE *to, struct err *err);

#endif
