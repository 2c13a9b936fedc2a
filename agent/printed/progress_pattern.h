/* SPDX-License-Identifier: Apache-2.0 */
/* progress_pattern.h - a user's own pattern of progress lines: "it {step}/{steps} loss={loss}"
 *
 * Pure: no clock, no I/O.
 *
 * Text stands for itself, a blank for any blanks, "..." for anything, {step} {steps} {epoch}
 * {epochs} {loss} {lr} {per_s} {s_per_step} {eta_s} and {percent} for a number; {eta_s} also takes a duration.  It may
 * begin anywhere in a line.
 */
#ifndef AGENT_PRINTED_PROGRESS_PATTERN_H
#define AGENT_PRINTED_PROGRESS_PATTERN_H

#include <stdbool.h>

#include "agent/printed/printed_progress.h"

struct err;

/* -1 and one sentence: an unknown name in braces, a brace that is not closed, or no {step} and no {epoch}. */
int progress_pattern_check(const char *pattern, struct err *err);
/* The end of what pattern[0, n), without "...", takes at `line`, or NULL; adds its
 * numbers.  "{}" is a number that is not told. */
const char *progress_pattern_match(const char *pattern, size_t n, const char *line, struct printed_progress *out);
/* Whether the line has the pattern; returns its numbers. */
bool progress_pattern_read(const char *pattern, const char *line, struct printed_progress *out);

#endif
