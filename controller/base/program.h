/* SPDX-License-Identifier: Apache-2.0 */
/* program.h - ask a program of ours, which lies beside this one, about a spec */
#ifndef CONTROLLER_BASE_PROGRAM_H
#define CONTROLLER_BASE_PROGRAM_H

#include <jansson.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>

struct buf;
struct err;

enum { PROGRAM_PATH = PATH_MAX };

/* The canonical spec in a new temporary file, which the caller removes. */
int program_spec_file(char path[PROGRAM_PATH], const json_t *spec, struct err *err);

/* Run `name` with the words, NULL-terminated, and wait for its end; its standard error is ours.
 * *status is that of waitpid(). */
int program_run(const char *name, const char *const *words, struct buf *out, int *status,
                struct err *err);

/* Without words, but with `request`, one line of JSON, as its input; how it ends is not asked. */
int program_tell(const char *name, const json_t *request, struct buf *out, struct err *err);

/* As program_run(); what it said goes to `to`. Its exit code; 256 when a signal ended it. */
int program_pass(const char *name, const char *const *words, FILE *to, struct err *err);

#endif
