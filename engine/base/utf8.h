/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.h - reads and writes UTF-8 characters (RFC 3629)
 *
 * Pure: no clock, no I/O.
 * Overlong forms, surrogates and numbers above 0x10FFFF are not characters.
 */
#ifndef ENGINE_BASE_UTF8_H
#define ENGINE_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length in bytes of the character at p, 1 to 4, and the character; 0: the n bytes do not begin with a complete
 * one. */
size_t utf8_read(const char *p, size_t n, uint32_t *character);
/* Are all n bytes valid characters? */
bool utf8_valid(const char *p, size_t n);
/* The length without a character that is cut at the end; at most `most`. */
size_t utf8_whole(const char *p, size_t n);
size_t utf8_fit(const char *p, size_t n, size_t most);
/* Do the n bytes begin an incomplete character? */
bool utf8_is_cut(const char *p, size_t n);
/* Its bytes; 0: not a character. */
size_t utf8_write(char out[4], uint32_t character);

#endif
