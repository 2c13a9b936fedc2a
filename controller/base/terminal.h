/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.h - the capabilities of the output: width, colour, character set */
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
    int   height;   /* lines; 0: not known, or no limit */
};

enum terminal_style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_RED, STYLE_GREEN, STYLE_YELLOW,
                      STYLE_BLUE };

/* Call setlocale() first. For a tty a numeric $COLUMNS takes precedence. */
void terminal_init(struct terminal *t, FILE *file);

/* Reads the width again: the window may have been resized. */
void terminal_measure(struct terminal *t);

/* The escape sequence of a style, or "" without colour. */
const char *terminal_style(const struct terminal *t, enum terminal_style style);

/* The width of `text` in columns. */
int terminal_columns(const char *text);

/* Copies at most `columns` columns of `text` and marks a cut; control characters become spaces,
 * characters missing in the character set '?'. columns <= 0: no limit. */
void terminal_fit(const struct terminal *t, char *out, size_t size, const char *text, int columns);

/* Prints text after the `at` columns already on the line; the rest wraps below with that indent.
 * One line if there is no width. */
void terminal_hang(const struct terminal *t, const char *text, int at);

/* Prints a paragraph wrapped at the width, each line after `indent` spaces. */
void terminal_wrap(const struct terminal *t, const char *text, int indent);

#endif
