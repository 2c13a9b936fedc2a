/* SPDX-License-Identifier: Apache-2.0 */
/* text_line.c - see text_line.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/printed/text_line.h"

#include <stdio.h>
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

bool text_line_ends(struct text_line line, const char *text)
{
    const size_t n = strlen(text);
    return line.n >= n && memcmp(line.at + line.n - n, text, n) == 0;
}

const char *text_line_find(struct text_line line, const char *text)
{
    return line.n ? memmem(line.at, line.n, text, strlen(text)) : NULL;
}

bool text_line_has(struct text_line line, const char *const *list)
{
    while (*list && !text_line_find(line, *list))
        list++;
    return *list != NULL;
}

struct text_line text_line_trim(struct text_line line)
{
    while (line.n && is_blank(line.at[line.n - 1]))
        line.n--;
    while (line.n && is_blank(line.at[0]))
        line = text_line_from(line, line.at + 1);
    return line;
}

struct text_line text_line_before(struct text_line line, const char *at)
{
    return (struct text_line){line.at, (size_t)(at - line.at)};
}

struct text_line text_line_from(struct text_line line, const char *at)
{
    return (struct text_line){at, line.n - (size_t)(at - line.at)};
}

/* The end of the escape sequence at `p`: CSI up to its final byte, OSC up to BEL or ESC, else two bytes. */
static const char *after_escape(const char *p)
{
    if (p[1] == '[') {
        for (p += 2; *p && (*p < '@' || *p > '~'); p++)
            ;
        return *p ? p + 1 : p;
    }
    if (p[1] == ']') {
        p += 2 + strcspn(p + 2, "\a\033");
        return *p == '\a' ? p + 1 : *p && p[1] == '\\' ? p + 2 : p;
    }
    return p[1] ? p + 2 : p + 1;
}

/* What the UTF-8 sequence at `p` is drawn as, or 0: itself. */
static char drawn_as(const char *p)
{
    const unsigned char *u = (const unsigned char *)p;
    const bool bullet = u[0] == 0xe2 && u[1] == 0x80 && u[2] == 0xa2;
    const bool vertical = u[0] == 0xe2 && u[1] == 0x94 && (u[2] == 0x82 || u[2] == 0x83);
    if (bullet || vertical)
        return '|';
    return u[0] == 0xe2 && u[1] >= 0x94 && u[1] <= 0x96 && u[2] >= 0x80 && u[2] <= 0xbf ? '#' : 0;
}

void text_line_screen(char *text)
{
    char *out = text;
    for (const char *p = text; *p;) {
        const size_t back = strspn(p, "\b");
        if (*p == '\033') {
            p = after_escape(p);
        } else if (back) {
            p += back;
            if (back > 1)
                *out++ = '\r';
            else
                out -= out > text;
        } else if (drawn_as(p)) {
            *out++ = drawn_as(p);
            p += 3;
        } else {
            *out++ = *p++;
        }
    }
    *out = '\0';
}

/* '\r' becomes '\n'; blanks before it go. */
static void end_lines(char *text)
{
    char *out = text;
    for (const char *p = text;; p++) {
        const bool ends = *p == '\n' || *p == '\r';
        while ((ends || !*p) && out > text && is_blank(out[-1]))
            out--;
        *out++ = ends ? '\n' : *p;
        if (!*p)
            return;
    }
}

void text_line_clean(char *out, size_t size, const char *output)
{
    const char *from = output ? output : "";
    const size_t n = strlen(from);
    if (n >= size) {
        from += n - (size - 1);
        const char *line = strchr(from, '\n');
        from = line ? line + 1 : from;
    }
    snprintf(out, size, "%s", from);
    text_line_screen(out);
    end_lines(out);
}
