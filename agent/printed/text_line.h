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

/* Takes the line at `*text`, which moves past it; false: no more lines. */
bool text_line_next(const char **text, struct text_line *line);
bool text_line_begins(struct text_line line, const char *text);
bool text_line_ends(struct text_line line, const char *text);
/* Where `text` occurs in the line, or NULL. */
const char *text_line_find(struct text_line line, const char *text);
/* Does one of the list, ended by NULL, occur in the line? */
bool text_line_has(struct text_line line, const char *const *list);
/* Without blanks at its beginning and end. */
struct text_line text_line_trim(struct text_line line);
/* The parts before `at`, and from it on. */
struct text_line text_line_before(struct text_line line, const char *at);
struct text_line text_line_from(struct text_line line, const char *at);

/* Converts to what a terminal shows, in place, never longer: ANSI escapes are removed, two or more backspaces become
 * '\r', a single one deletes a character, box drawings and blocks (U+2500 to U+259F) become '#' or, if vertical,
 * '|', bullets '|'. Invalid UTF-8 stays. */
void text_line_screen(char *text);
/* The last `size - 1` bytes of `output` (NULL: ""), starting at a line: as a terminal shows them, each frame of a
 * bar on its own line, without blanks at the ends of lines. Indentation stays. */
void text_line_clean(char *out, size_t size, const char *output);

#endif
