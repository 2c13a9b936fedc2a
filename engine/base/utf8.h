/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.h - one character of UTF-8 (RFC 3629), read and written
 *
 * Pure: no clock, no I/O.
 * Overlong forms, surrogates and numbers above 0x10FFFF are not characters.
 */
#ifndef ENGINE_BASE_UTF8_H
#define ENGINE_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes of the character at p, 1 to 4, and the character; 0: the n bytes do not begin with a whole one. */
size_t utf8_read(const char *p, size_t n, uint32_t *character);
/* All n bytes are characters. */
bool utf8_valid(const char *p, size_t n);
/* How many of the n bytes are left without a character that is cut at their end; of `most`, if they are more. */
size_t utf8_whole(const char *p, size_t n);
size_t utf8_fit(const char *p, size_t n, size_t most);
/* The n bytes, less than a character has, begin one. */
bool utf8_is_cut(const char *p, size_t n);
/* Its bytes; 0: it is not a character. */
size_t utf8_write(char out[4], uint32_t character);

#endif
