/* SPDX-License-Identifier: Apache-2.0 */
/* text_line.c - see text_line.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/printed/text_line.h"

#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

bool text_line_next(const char **text, struct text_line *line)
{
    if (!**text)
        return false;
    *line = (struct text_line){*text, strcspn(*text, "\n")};
    *text += line->n + ((*text)[line->n] == '\n');
    return true;
}

bool text_line_begins(struct text_line line, const char *text)
{
    const size_t n = strlen(text);
    return line.n >= n && memcmp(line.at, text, n) == 0;
}

const char *text_line_find(struct text_line line, const char *text)
{
    return line.n ? memmem(line.at, line.n, text, strlen(text)) : NULL;
}

struct text_line text_line_trim(struct text_line line)
{
    while (line.n && is_blank(line.at[line.n - 1]))
        line.n--;
    while (line.n && is_blank(line.at[0])) {
        line.at++;
        line.n--;
    }
    return line;
}
