/* SPDX-License-Identifier: Apache-2.0 */
/* diagnostics.h - the list of all mistakes in a file, ordered by line, without duplicates
 *
 * A parser adds each mistake and continues, so that the user sees all of them at
 * once.  Mistakes without a line (for example in a --set, which the text names) come last.  Beyond a limit they are
 * only counted.
 */
#ifndef CONTROLLER_BASE_DIAGNOSTICS_H
#define CONTROLLER_BASE_DIAGNOSTICS_H

#include <jansson.h>

#include "engine/base/err.h"

enum { DIAGNOSTICS_MAX = 20 };

/* Counted from 1; line 0: not in the file. */
struct finding {
    int        line, column;
    struct err err;
};

/* All zero: no mistakes. */
struct diagnostics {
    int            count;
    int            more;    /* number found beyond the list's limit */
    struct finding list[DIAGNOSTICS_MAX];
};

/* Adds a mistake; an equal text at the same place is added once. */
void diagnostics_add(struct diagnostics *found, int line, int column, const struct err *err);

/* Sets *err to the first mistake unless *err is set. 0 if there is none, else -1. */
int diagnostics_first(const struct diagnostics *found, struct err *err);

/* A new object for an answer (docs/API.md): {error: {file, line, column}} of the first mistake, if it has a place;
 * {errors: [{text, file, line, column}...]} of all; {more} if some are not listed. */
json_t *diagnostics_to_json(const struct diagnostics *found, const char *file);

/* Reads the output of diagnostics_to_json() from an answer; empty if absent. */
void diagnostics_from_json(struct diagnostics *found, const json_t *answer);

#endif
