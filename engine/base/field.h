/* SPDX-License-Identifier: Apache-2.0 */
/* field.h - fields of JSON objects from other programs; a field of the wrong type counts as absent
 *
 * Pure: no clock, no I/O.
 * The object may be NULL or of another type: it has no fields then. Texts are borrowed from it.
 */
#ifndef ENGINE_BASE_FIELD_H
#define ENGINE_BASE_FIELD_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

const char *field_text(const json_t *object, const char *key); /* "": absent */
int64_t field_int(const json_t *object, const char *key, int64_t absent);
/* Numbers beyond 2^53, which not every JSON parser can read, also count as absent: for numbers that are stored and
 * printed again. */
int64_t field_safe_int(const json_t *object, const char *key, int64_t absent);
double field_number(const json_t *object, const char *key); /* NAN: absent */
bool field_true(const json_t *object, const char *key);

/* A number of seconds, as milliseconds; 0: absent. */
int64_t field_seconds_ms(const json_t *object, const char *key);

#endif
