/* SPDX-License-Identifier: Apache-2.0 */
/* json_text.h - text of other programs as JSON strings, whatever its encoding
 *
 * Pure: no clock, no I/O.
 * JSON is UTF-8, and the JSON library makes no value at all of other bytes: an event would lose its reason, or be lost.
 * Here bytes that are no character become U+FFFD, one for each byte or cut character, and so does a NUL. Where a
 * replacement would be wrong, because the text is a name or a value to be used, json_string() refuses it; `make check`
 * knows these places (tests/check_json.sh).
 */
#ifndef ENGINE_BASE_JSON_TEXT_H
#define ENGINE_BASE_JSON_TEXT_H

#include <jansson.h>
#include <stddef.h>

json_t *json_text_n(const char *bytes, size_t n);
/* Without the character at the end of UTF-8 text that a buffer was too small for.  NULL: NULL. */
json_t *json_text(const char *text);
json_t *json_text_f(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
