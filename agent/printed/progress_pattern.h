/* SPDX-License-Identifier: Apache-2.0 */
/* progress_pattern.h - a user-defined pattern for progress lines: "it {step}/{steps} loss={loss}"
 *
 * Pure: no clock, no I/O.
 *
 * Text stands for itself, a blank for any blanks, "..." for anything, {step} {steps} {epoch}
 * {epochs} {loss} {lr} {per_s} {s_per_step} {eta_s} and {percent} for a number; {eta_s} also takes a duration.  The
 * match may begin anywhere in a line.
 */
#ifndef AGENT_PRINTED_PROGRESS_PATTERN_H
#define AGENT_PRINTED_PROGRESS_PATTERN_H

#include <stdbool.h>

#include "agent/printed/printed_progress.h"

struct err;

/* -1 and a message: an unknown name in braces, an unclosed brace, or neither {step} nor {epoch}. */
int progress_pattern_check(const char *pattern, struct err *err);
/* The end of the match of pattern[0, n), which has no "...", at `line`, or NULL; adds its numbers. "{}" matches a
 * number that is ignored. */
const char *progress_pattern_match(const char *pattern, size_t n, const char *line, struct printed_progress *out);
/* Does the line match the pattern? Returns its numbers. */
bool progress_pattern_read(const char *pattern, const char *line, struct printed_progress *out);

#endif
