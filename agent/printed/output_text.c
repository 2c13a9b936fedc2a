/* SPDX-License-Identifier: Apache-2.0 */
/* output_text.c - see output_text.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/printed/output_text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "agent/printed/screen_line.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* '\r' becomes '\n'; blanks before it go. */
static void end_lines(char *text)
{
    char *out = text;
    for (const char *p = text; *p; p++) {
        const bool ends = *p == '\n' || *p == '\r';
        while (ends && out > text && is_blank(out[-1]))
            out--;
        *out++ = ends ? '\n' : *p;
    }
    while (out > text && is_blank(out[-1]))
        out--;
    *out = '\0';
}

void output_text_clean(char *out, size_t size, const char *output)
{
    const size_t n = output ? strlen(output) : 0;
    const char *from = output ? output : "";
    if (n >= size) {
        from = output + n - (size - 1);
        const char *line = strchr(from, '\n');
        from = line ? line + 1 : from;
    }
    snprintf(out, size, "%s", from);
    screen_line_clean(out);
    end_lines(out);
}
