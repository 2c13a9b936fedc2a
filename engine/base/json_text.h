/* SPDX-License-Identifier: Apache-2.0 */
/* json_text.h - other programs' text as JSON strings, whatever its encoding
 *
 * Pure: no clock, no I/O.
 * JSON is UTF-8, and the JSON library rejects other bytes: an event would lose its reason, or be lost. Here each
 * invalid byte, truncated character and NUL becomes U+FFFD. Where a replacement would be wrong, because the text is a
 * name or a value to be used, callers use json_string(), which rejects the text; tests/check_json.sh lists these
 * places.
 */
#ifndef ENGINE_BASE_JSON_TEXT_H
#define ENGINE_BASE_JSON_TEXT_H

#include <jansson.h>
#include <stddef.h>

json_t *json_text_n(const char *bytes, size_t n);
/* Drops a character that was cut at the end of UTF-8 text because a buffer was too small. NULL: NULL. */
json_t *json_text(const char *text);
json_t *json_text_f(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
