/* SPDX-License-Identifier: Apache-2.0 */
/* field.h - one field of a JSON object, or a default where it is missing or of another type
 *
 * Pure: no clock, no I/O.
 * For objects from outside, which may have any shape; also for NULL instead of an object.
 */
#ifndef AGENT_OS_FIELD_H
#define AGENT_OS_FIELD_H

#include <jansson.h>
#include <stdint.h>

const char *field_text(const json_t *object, const char *key);      /* "" by default; borrowed */

/* The default holds also beyond 2^53, which not every JSON parser can read. */
int64_t field_int(const json_t *object, const char *key, int64_t otherwise);

#endif
