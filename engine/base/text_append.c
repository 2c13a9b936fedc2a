/* SPDX-License-Identifier: Apache-2.0 */
/* text_append.c - see text_append.h
 *
 * Pure: no clock, no I/O.
 */
#include "engine/base/text_append.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/utf8.h"

void text_append(char *text, size_t size, const char *fmt, ...)
{
    const size_t n = strlen(text);
    va_list ap;
    va_start(ap, fmt);
    const int more = vsnprintf(text + n, size - n, fmt, ap);
    va_end(ap);
    if (more >= (int)(size - n))
        text[utf8_whole(text, size - 1)] = '\0';
}
