/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.h - what the reader of our output can show: width, colour, characters */
#ifndef CONTROLLER_BASE_TERMINAL_H
#define CONTROLLER_BASE_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct terminal {
    FILE *file;
    bool  tty;
    bool  color;    /* a tty, not TERM=dumb, and NO_COLOR is unset */
    bool  utf8;     /* the locale's character set */
    int   width;    /* columns; 0: no limit (a file or a pipe) */
};

enum terminal_style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_RED, STYLE_GREEN, STYLE_YELLOW,
                      STYLE_BLUE };

/* setlocale() has been called. $COLUMNS, where it is a number, wins for a tty. */
void terminal_init(struct terminal *t, FILE *file);

/* Ask for the width again: the window may have changed. */
void terminal_measure(struct terminal *t);

/* Escape sequence of a style, or "" where there is no colour. */
const char *terminal_style(const struct terminal *t, enum terminal_style style);

/* Columns that `text` takes. */
int terminal_columns(const char *text);

/* `text` in at most `columns` columns, its cut marked; control characters become spaces, and what
 * the character set lacks becomes '?'. columns <= 0: no limit. */
void terminal_fit(const struct terminal *t, char *out, size_t size, const char *text, int columns);

/* Print the rest of a line that has `at` columns, and below them what does not fit the width; in one
 * line where there is none. */
void terminal_hang(const struct terminal *t, const char *text, int at);

/* Print a paragraph wrapped at the width, each line after `indent` spaces. */
void terminal_wrap(const struct terminal *t, const char *text, int indent);

#endif
