/* SPDX-License-Identifier: Apache-2.0 */
/* spec_merge.h - the changes of an edited text, put into the canonical spec that the job has
 *
 * Pure: no clock, no I/O.
 * The spec of a job differs from its text: dependencies are ids, a directory was chosen, a configuration has changed
 * since. So the text before the edit and the text after it are both parsed, and only their differences are applied.
 */
#ifndef CONTROLLER_SPEC_SPEC_MERGE_H
#define CONTROLLER_SPEC_SPEC_MERGE_H

#include <jansson.h>

/* `stored` with each value that differs between `was` and `now`, and without what only `was` has; a new object. Its
 * origin and lineage stay. */
json_t *spec_merge(const json_t *stored, const json_t *was, const json_t *now);

/* The paths at which two canonical specs differ, "train.steps", a new list; origin and lineage are not compared. */
json_t *spec_merge_keys(const json_t *a, const json_t *b);

#endif
