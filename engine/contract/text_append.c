/* SPDX-License-Identifier: Apache-2.0 */
/* text_append.c - see text_append.h
 *
 * Pure: no clock, no I/O.
 */
#include "engine/contract/text_append.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void text_append(char *text, size_t size, const char *fmt, ...)
{
    const size_t n = strlen(text);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text + n, size - n, fmt, ap);
    va_end(ap);
}
