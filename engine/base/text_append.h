/* SPDX-License-Identifier: Apache-2.0 */
/* text_append.h - appends text to a buffer; tests what a text ends with
 *
 * Pure: no clock, no I/O.
 */
#ifndef ENGINE_BASE_TEXT_APPEND_H
#define ENGINE_BASE_TEXT_APPEND_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* `size`: of the buffer, which stays NUL-terminated; text that does not fit is cut after a whole character. */
void text_append(char *text, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Does the text end with `end`, with something before it (a file name with this extension)? */
static inline bool text_ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

#endif
