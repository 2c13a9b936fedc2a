/* SPDX-License-Identifier: Apache-2.0 */
/* screen_line.h - lines as a terminal shows them: without escapes, with the drawings of bars as ASCII
 *
 * Pure: no clock, no I/O.
 */
#ifndef AGENT_PRINTED_SCREEN_LINE_H
#define AGENT_PRINTED_SCREEN_LINE_H

/* In place, and never longer: ANSI escapes are removed, two or more backspaces become '\r', one deletes a character,
 * box drawings and blocks (U+2500 to U+259F) become '#' or, where vertical, '|', bullets '|', NUL bytes cannot
 * occur.  What is not valid UTF-8 stays. */
void screen_line_clean(char *text);

/* The next frame of `*text`, up to '\r' or '\n', which becomes its end; moves `*text` behind it.  NULL: no more. */
char *screen_line_next(char **text);

#endif
