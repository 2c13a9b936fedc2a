/* SPDX-License-Identifier: Apache-2.0 */
/* shell_text.h - what a shell text does, as far as its syntax alone tells
 *
 * Pure: no clock, no I/O.
 * Quotes, comments and escapes are respected; here-documents, and words that the shell expands, are not read.
 */
#ifndef AGENT_OS_SHELL_TEXT_H
#define AGENT_OS_SHELL_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Moves past one quoted piece, comment or character of the text that begins at `begin`; *plain: it can be a part of a
 * command's syntax. */
const char *shell_text_skip(const char *p, const char *begin, bool *plain);

/* Does it start a program with `&`? NULL: no. */
bool shell_text_has_background(const char *text);

/* The last file to which output goes: "train.log" of `python train.py >train.log 2>&1`; "" = none that is known. */
void shell_text_output(char *out, size_t size, const char *text);

#endif
