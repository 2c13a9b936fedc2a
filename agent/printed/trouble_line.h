/* SPDX-License-Identifier: Apache-2.0 */
/* trouble_line.h - a line at the end of an output that gives the reason of the end in words
 *
 * Pure: no clock, no I/O.
 */
#ifndef AGENT_PRINTED_TROUBLE_LINE_H
#define AGENT_PRINTED_TROUBLE_LINE_H

#include "agent/printed/text_line.h"

/* The last line marked as an error ("error: ...", "[ERROR] ..."), else one of the last three that has a word of trouble
 * ("cannot", "missing", ...) and is not progress.  n == 0: none; the program printed no reason. */
struct text_line trouble_line_find(const char *text);

/* What launchers print after a program has failed. */
bool trouble_line_is_echo(struct text_line line);

#endif
