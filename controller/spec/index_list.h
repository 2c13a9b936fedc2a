/* SPDX-License-Identifier: Apache-2.0 */
/* index_list.h - the indices of an array: 0-99, 0-15:4 (every fourth), 1,3,7-9, and %8 (at most 8 at once)
 *
 * Pure: no clock, no I/O.
 * The form is that of Slurm's --array.
 */
#ifndef CONTROLLER_SPEC_INDEX_LIST_H
#define CONTROLLER_SPEC_INDEX_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* The largest index, and the most indices of an array or points of a sweep. */
enum { INDEX_MAX = 99999, INDEX_COUNT_MAX = 10000 };

/* A set of indices; zeroed: empty. */
struct index_list {
    uint64_t bits[INDEX_MAX / 64 + 1];
    int      count;
    int      at_once;           /* N of %N; 0: not given */
};

/* -1: *err has what was expected (ERR_USAGE), and *list is undefined. */
int index_list_parse(struct index_list *list, const char *text, struct err *err);

/* False: the index was already present. It must be from 0 to INDEX_MAX. */
bool index_list_add(struct index_list *list, int index);
bool index_list_has(const struct index_list *list, int index);

/* The smallest index above `after` (-1: the first), or -1. */
int index_list_next(const struct index_list *list, int after);

/* "1,3,7-9"; free() it. NULL: no memory. */
char *index_list_text(const struct index_list *list);

#endif
