/* SPDX-License-Identifier: Apache-2.0 */
/* text_line.h - a piece of a text, and the lines of one
 *
 * Pure: no clock, no I/O.
 */
#ifndef AGENT_PRINTED_TEXT_LINE_H
#define AGENT_PRINTED_TEXT_LINE_H

#include <stdbool.h>
#include <stddef.h>

/* Not ended by a NUL, not owned. */
struct text_line {
    const char *at;
    size_t      n;
};

/* The line at `*text`, which moves behind it; false: no more. */
bool text_line_next(const char **text, struct text_line *line);

bool text_line_begins(struct text_line line, const char *text);
/* Where `text` stands in the line, or NULL. */
const char *text_line_find(struct text_line line, const char *text);
/* Without blanks at its beginning and end. */
struct text_line text_line_trim(struct text_line line);

#endif
