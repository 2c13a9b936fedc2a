/* SPDX-License-Identifier: Apache-2.0 */
/* spec_merge.h - the changes of an edited text, put into the canonical spec that the job has
 *
 * Pure: no clock, no I/O.
 * The spec of a job is not what its text says: dependencies are ids there, a directory was chosen, a configuration
 * has changed since.  So the text is read before and after, and only what differs is taken.
 */
#ifndef CONTROLLER_SPEC_SPEC_MERGE_H
#define CONTROLLER_SPEC_SPEC_MERGE_H

#include <jansson.h>

/* `stored` with each value that differs between `was` and `now`, and without what only `was` has; a new object. Its
 * origin and lineage stay. */
json_t *spec_merge(const json_t *stored, const json_t *was, const json_t *now);

/* The paths at which two canonical specs differ, "train.steps", a new list; origin and lineage are not looked at. */
json_t *spec_merge_keys(const json_t *a, const json_t *b);

#endif
