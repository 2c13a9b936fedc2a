/* SPDX-License-Identifier: Apache-2.0 */
/* output_text.h - the output of a program as plain lines, to be searched for a reason
 *
 * Pure: no clock, no I/O.
 */
#ifndef AGENT_PRINTED_OUTPUT_TEXT_H
#define AGENT_PRINTED_OUTPUT_TEXT_H

#include <stddef.h>

enum { OUTPUT_TEXT_BYTES = 32 * 1024 };

/* The last `size - 1` bytes of `output` (NULL: ""), begun at a line: without colours, every frame of a bar on a line
 * of its own, no blanks at the ends of lines.  Indentation stays. */
void output_text_clean(char *out, size_t size, const char *output);

#endif
