/* SPDX-License-Identifier: Apache-2.0 */
/* sweep_points.h - the members of a sweep or an array: their number, their values, and their plain specs
 *
 * Pure: no clock, no I/O.
 * A canonical spec with `array` or `sweep` stands for its members.  `sweep` is a grid, {path: [values]}, whose last
 * key varies fastest, or a list of points, [{path: value}] with the same keys in each; values are canonical.
 * `array` has indices: of the points, or by itself.  Without it, all points have a member.  All other keys are
 * those of the first point.
 */
#ifndef CONTROLLER_SPEC_SWEEP_POINTS_H
#define CONTROLLER_SPEC_SWEEP_POINTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "controller/spec/index_list.h"

struct err;

#define SWEEP_INDEX_NAME "JOBCTL_ARRAY_INDEX"

/* The most keys of a point, and what a member's name adds to its sweep's: "[99999]". */
enum { SWEEP_KEYS_MAX = 16, SWEEP_NAME_MORE = 7 };

/* Does the canonical spec describe several members? */
bool sweep_points_is(const json_t *spec);

/* For `sweep` alone, without `array`; 0: no such key. */
int sweep_points_count(const json_t *spec);

/* Are both keys consistent? -1: *err begins with the key, as in "array: ..." (ERR_USAGE). True for a spec without
 * these keys. */
int sweep_points_check(const json_t *spec, struct err *err);

/* The indices of its members, in *list. The spec must have passed the check. */
int sweep_points_indices(struct index_list *list, const json_t *spec, struct err *err);

/* {path: value} of a point, a new object; empty for an array. NULL: no memory, or no such point. */
json_t *sweep_points_at(const json_t *spec, int index);

/* The spec of a member: without the keys of sweeps, with its values, its name NAME[INDEX] and JOBCTL_ARRAY_INDEX in
 * env. A new object, or NULL: no memory. */
json_t *sweep_points_member(const json_t *spec, int index);

/* The value at "a.b.c" in a map of maps, or NULL. */
json_t *sweep_points_value(const json_t *map, const char *path);

#endif
