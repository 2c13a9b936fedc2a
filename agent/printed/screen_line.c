/* SPDX-License-Identifier: Apache-2.0 */
/* screen_line.c - see screen_line.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/printed/screen_line.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The end of the escape sequence at `p`: CSI up to its final byte, OSC up to BEL or ESC, else two bytes. */
static const char *after_escape(const char *p)
{
    if (p[1] == '[') {
        for (p += 2; *p && (*p < '@' || *p > '~'); p++)
            ;
        return *p ? p + 1 : p;
    }
    if (p[1] == ']') {
        for (p += 2; *p && *p != '\a' && *p != '\033'; p++)
            ;
        return *p == '\a' ? p + 1 : *p && p[1] == '\\' ? p + 2 : p;
    }
    return p[1] ? p + 2 : p + 1;
}

/* What the UTF-8 sequence at `p` is drawn as, or 0: itself. */
static char drawn_as(const char *p)
{
    const unsigned char *u = (const unsigned char *)p;
    if (u[0] != 0xe2)
        return 0;
    if (u[1] == 0x80 && u[2] == 0xa2) /* bullet */
        return '|';
    if (u[1] == 0x94 && (u[2] == 0x82 || u[2] == 0x83)) /* vertical lines */
        return '|';
    return u[1] >= 0x94 && u[1] <= 0x96 && u[2] >= 0x80 && u[2] <= 0xbf ? '#' : 0;
}

static char *take_backspaces(char *begin, char *out, size_t n)
{
    if (n > 1)
        *out++ = '\r';
    else if (out > begin)
        out--;
    return out;
}

void screen_line_clean(char *text)
{
    char *out = text;
    for (const char *p = text; *p;) {
        const size_t back = strspn(p, "\b");
        if (*p == '\033') {
            p = after_escape(p);
        } else if (back) {
            out = take_backspaces(text, out, back);
            p += back;
        } else if (drawn_as(p)) {
            *out++ = drawn_as(p);
            p += 3;
        } else {
            *out++ = *p++;
        }
    }
    *out = '\0';
}

char *screen_line_next(char **text)
{
    char *line = *text;
    if (!*line)
        return NULL;
    const size_t n = strcspn(line, "\r\n");
    *text = line + n + (line[n] != '\0');
    line[n] = '\0';
    return line;
}
