/* SPDX-License-Identifier: Apache-2.0 */
/* spec_keys.h - the keys whose values differ between two canonical specs
 *
 * Pure: no clock, no I/O.
 */
#ifndef CONTROLLER_SPEC_SPEC_KEYS_H
#define CONTROLLER_SPEC_SPEC_KEYS_H

#include <jansson.h>

/* Paths, "train.steps", a new list; origin and lineage are not compared. */
json_t *spec_keys_differ(const json_t *a, const json_t *b);

#endif
