/* SPDX-License-Identifier: Apache-2.0 */
/* line_pattern.h - a user's regular expression for lines of output, matched in bounded time
 *
 * Pure: no clock, no I/O.
 * A line of n bytes costs at most n times the number of pattern steps, because all alternatives are followed in
 * parallel. The C library's regexec() can take minutes for one line of 4 KiB, and regcomp() gigabytes for nested
 * counts.
 *
 * POSIX extended syntax by bytes, and \d \w \s \D \W \S \b \B \< \>. Among matches that begin at the same place, the
 * first alternative and the longest repetition win. Not supported: back references, [.x.], [=x=].
 */
#ifndef AGENT_PRINTED_LINE_PATTERN_H
#define AGENT_PRINTED_LINE_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

struct err;
struct line_pattern;

/* One for each character and some for each operator, with the counts multiplied: (ab{3}){2} has 12. */
enum { LINE_PATTERN_STEPS = 500 };

/* The first group of the match: line[begin, end); begin < 0: the group did not take part in the match. */
struct line_group {
    int begin, end;
};

/* -1 and a message: what is wrong in the pattern, where, and what to write instead. */
int line_pattern_create(struct line_pattern **out, const char *pattern, struct err *err);
void line_pattern_destroy(struct line_pattern *p);     /* accepts NULL */
int line_pattern_groups(const struct line_pattern *p);

/* Does any part of the line match? If so, sets `group` from the first match. */
bool line_pattern_find(struct line_pattern *p, const char *line, struct line_group *group);

#endif
