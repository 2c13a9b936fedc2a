/* SPDX-License-Identifier: Apache-2.0 */
/* text_line.h - the output of a program as plain lines
 *
 * Pure: no clock, no I/O.
 */
#ifndef AGENT_PRINTED_TEXT_LINE_H
#define AGENT_PRINTED_TEXT_LINE_H

#include <stdbool.h>
#include <stddef.h>

enum { OUTPUT_TEXT_BYTES = 32 * 1024 };

/* A piece of a text.  Not ended by a NUL, not owned. */
struct text_line {
    const char *at;
    size_t      n;
};

/* The line at `*text`, which moves behind it; false: no more. */
bool text_line_next(const char **text, struct text_line *line);
bool text_line_begins(struct text_line line, const char *text);
bool text_line_ends(struct text_line line, const char *text);
/* Where `text` stands in the line, or NULL. */
const char *text_line_find(struct text_line line, const char *text);
/* Whether one of the list, which NULL ends, stands in the line. */
bool text_line_has(struct text_line line, const char *const *list);
/* Without blanks at its beginning and end. */
struct text_line text_line_trim(struct text_line line);
/* What stands before `at` and from it on. */
struct text_line text_line_before(struct text_line line, const char *at);
struct text_line text_line_from(struct text_line line, const char *at);

/* As a terminal shows it, in place, and never longer: ANSI escapes are removed, two or more backspaces become '\r', one
 * deletes a character, box drawings and blocks (U+2500 to U+259F) become '#' or, where vertical, '|', bullets '|'.
 * What is not valid UTF-8 stays. */
void text_line_screen(char *text);
/* The last `size - 1` bytes of `output` (NULL: ""), begun at a line: as a terminal shows them, every frame of a bar on
 * a line of its own, no blanks at the ends of lines.  Indentation stays. */
void text_line_clean(char *out, size_t size, const char *output);

#endif
