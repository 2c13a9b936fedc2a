/* SPDX-License-Identifier: Apache-2.0 */
/* text_append.h - appends text to a buffer
 *
 * Pure: no clock, no I/O.
 */
#ifndef ENGINE_CONTRACT_TEXT_APPEND_H
#define ENGINE_CONTRACT_TEXT_APPEND_H

#include <stddef.h>

/* `size`: of the buffer, which ends with a NUL; text that does not fit is cut behind a whole character. */
void text_append(char *text, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
