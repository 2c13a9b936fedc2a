/* SPDX-License-Identifier: Apache-2.0 */
/* diagnostics.h - what is wrong with a file: all of it, each once, in the order of its lines
 *
 * Who reads a file adds what it finds and goes on; who made the mistakes gets
 * them in one go.  What stands in no line (a --set, for example, which its
 * sentence names) comes last.  Of very many the first are kept, and counted.
 */
#ifndef CONTROLLER_BASE_DIAGNOSTICS_H
#define CONTROLLER_BASE_DIAGNOSTICS_H

#include <jansson.h>

#include "engine/contract/err.h"

enum { DIAGNOSTICS_MAX = 20 };

/* Counted from 1; line 0: in no line of the file. */
struct finding {
    int        line, column;
    struct err err;
};

/* All zero: nothing is wrong. */
struct diagnostics {
    int            count;
    int            more;    /* found beyond those of the list */
    struct finding list[DIAGNOSTICS_MAX];
};

/* The same sentence about the same place is added once. */
void diagnostics_add(struct diagnostics *found, int line, int column, const struct err *err);

/* The first one into *err, which keeps what it has. 0 if there is none, else -1. */
int diagnostics_first(const struct diagnostics *found, struct err *err);

/* For an answer (docs/API.md), a new object: {error: {file, line, column}} of the first, as far as it
 * has a place; {errors: [{text, file, line, column}...]} of all; {more} if the list is not all. */
json_t *diagnostics_to_json(const struct diagnostics *found, const char *file);

/* What diagnostics_to_json() has put into an answer; nothing where nothing is. */
void diagnostics_from_json(struct diagnostics *found, const json_t *answer);

#endif
