/* SPDX-License-Identifier: Apache-2.0 */
/* json_make.h - JSON values from C values; text may have any encoding (json_text.h)
 *
 * Pure: no clock, no I/O.
 */
#ifndef ENGINE_BASE_JSON_MAKE_H
#define ENGINE_BASE_JSON_MAKE_H

#include "engine/base/json_text.h"

/* As json_pack(), with the formats s n b i I f o O { } [ ] and, after s, o and O, '?' (NULL becomes null) and '*'
 * (NULL is left out). Text that is not UTF-8, a NULL for s and a number that is not finite do not fail: the last two
 * become null. NULL: the format is wrong, or an o or O is NULL because its maker has failed. */
json_t *json_make(const char *format, ...);

#endif
