/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.c - see terminal.h
 *
 * Text is UTF-8 internally and is converted for the terminal only here.
 */
#include "controller/base/terminal.h"
#include "engine/base/utf8.h"

#include <langinfo.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

enum { WIDTH_DEFAULT = 80, WIDTH_LEAST = 20 };

void terminal_measure(struct terminal *t)
{
    t->width = t->height = 0;
    if (!t->tty)
        return;
    const char *columns = getenv("COLUMNS");
    struct winsize ws = {0};
    ioctl(fileno(t->file), TIOCGWINSZ, &ws);
    t->height = ws.ws_row;
    if (columns && atoi(columns) > 0)
        t->width = atoi(columns);
    else if (ws.ws_col > 0)
        t->width = ws.ws_col;
    else
        t->width = WIDTH_DEFAULT;
    if (t->width < WIDTH_LEAST)
        t->width = WIDTH_LEAST;
}

void terminal_init(struct terminal *t, FILE *file)
{
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    t->file = file;
    t->tty = isatty(fileno(file));
    t->color = t->tty && !(no_color && no_color[0]) && term && strcmp(term, "dumb") != 0;
    t->utf8 = strcasecmp(nl_langinfo(CODESET), "UTF-8") == 0;
    terminal_measure(t);
}

const char *terminal_style(const struct terminal *t, enum terminal_style style)
{
    static const char *const codes[] = {
        [STYLE_PLAIN] = "\033[0m", [STYLE_BOLD] = "\033[1m", [STYLE_DIM] = "\033[2m",
        [STYLE_RED] = "\033[31m", [STYLE_GREEN] = "\033[32m", [STYLE_YELLOW] = "\033[33m",
        [STYLE_BLUE] = "\033[34m",
    };
    return t->color ? codes[style] : "";
}

/* Decodes the next UTF-8 character and its length; an invalid byte becomes '?'. */
static unsigned decode(const char *text, int *bytes)
{
    uint32_t c;
    const size_t n = utf8_read(text, strnlen(text, 4), &c);
    *bytes = n ? (int)n : 1;
    return n ? c : '?';
}

static int columns_of(unsigned c)
{
    if (c < 0x80)
        return 1;
    int w = wcwidth((wchar_t)c);
    return w < 0 ? 1 : w;
}

int terminal_columns(const char *text)
{
    int columns = 0, bytes;
    for (; *text; text += bytes)
        columns += columns_of(decode(text, &bytes));
    return columns;
}

/* ASCII substitutes for the characters that we print. */
static const char *plain_of(unsigned c)
{
    switch (c) {
    case 0x2026:
        return "...";
    case 0x2013:
    case 0x2014:
        return "-";
    case 0x2018:
    case 0x2019:
        return "'";
    case 0x201C:
    case 0x201D:
        return "\"";
    case 0x2192:
        return "->";
    case 0x00D7:
        return "x";
    default:
        return "?";
    }
}

void terminal_fit(const struct terminal *t, char *out, size_t size, const char *text, int columns)
{
    const char *dots = t->utf8 ? "\xE2\x80\xA6" : "...";
    int room = columns > 0 ? columns : 1 << 30, used = 0, bytes;
    size_t at = 0, cut = 0;
    int dots_columns = t->utf8 ? 1 : room < 3 ? room : 3;
    bool whole = true;
    for (; *text; text += bytes) {
        unsigned c = decode(text, &bytes);
        char control[2] = " ";
        const char *piece = text;
        int piece_bytes = bytes;
        if (c < ' ' || c == 0x7F || (c >= 0x80 && c < 0xA0))
            piece = control, piece_bytes = 1, c = ' ';
        else if ((c >= 0x80 && !t->utf8) || (bytes == 1 && c == '?'))
            piece = c == '?' ? "?" : plain_of(c), piece_bytes = (int)strlen(piece), c = 'x';
        int w = c == 'x' ? piece_bytes : columns_of(c);
        if (used + w > room || at + (size_t)piece_bytes + 4 >= size) {
            whole = false;
            break;
        }
        memcpy(out + at, piece, (size_t)piece_bytes);
        at += (size_t)piece_bytes;
        used += w;
        if (used <= room - dots_columns)
            cut = at;
    }
    out[at] = '\0';
    if (!whole && size - cut > 4)
        snprintf(out + cut, size - cut, "%.*s", t->utf8 ? 3 : dots_columns, dots);
}

/* Prints words, each line after `indent` spaces; the first line already has `at` columns. */
static void wrap(const struct terminal *t, const char *text, int indent, int at, int width)
{
    bool fresh = at > 0;    /* no space before the first word */
    while (*text) {
        size_t len = strcspn(text, " \n");
        char word[1024], shown[1100];
        snprintf(word, sizeof(word), "%.*s", (int)len, text);
        terminal_fit(t, shown, sizeof(shown), word, 0);
        int w = terminal_columns(shown);
        if (at && !fresh && at + 1 + w > width) {
            fputc('\n', t->file);
            at = 0;
        }
        if (w && at == 0)
            at = fprintf(t->file, "%*s", indent, "");
        else if (w && !fresh)
            at += fprintf(t->file, " ");
        fresh = fresh && w == 0;
        fputs(shown, t->file);
        at += w;
        text += len;
        if (*text == '\n') {
            fputc('\n', t->file);
            at = 0;
        }
        text += *text != '\0';
    }
    if (at)
        fputc('\n', t->file);
}

void terminal_wrap(const struct terminal *t, const char *text, int indent)
{
    wrap(t, text, indent, 0, t->width > indent + 20 ? t->width : indent + 100);
}

void terminal_hang(const struct terminal *t, const char *text, int at)
{
    if (t->width > at + 20) {
        wrap(t, text, at, at, t->width);
        return;
    }
    char shown[4096];
    terminal_fit(t, shown, sizeof(shown), text, 0);
    fprintf(t->file, "%s\n", shown);
}
