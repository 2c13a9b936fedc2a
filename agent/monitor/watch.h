/* SPDX-License-Identifier: Apache-2.0 */
/* watch.h - rules about what a program prints: `watch:` in a job's spec
 *
 * Pure: no clock, no I/O.
 * Each rule has a pattern; a line of any rank that it matches is a sign of life, and its
 * first group, if there is one, a number.  A rule is broken when the first such line does not
 * come within start_within, when none comes for `every` after that, or when the number is not
 * below `below` (NaN never is).  A broken rule is told once in a generation.
 */
#ifndef AGENT_MONITOR_WATCH_H
#define AGENT_MONITOR_WATCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct err;
struct watch;

struct watch_verdict {
    bool restart; /* action: restart; else only a warning */
    bool init;    /* the first line did not come */
    bool value;   /* the number is not below */
    char text[224];
};

/* rules: the canonical list, or NULL. */
int watch_create(struct watch **out, const json_t *rules, struct err *err);
void watch_destroy(struct watch *w);
bool watch_has_rules(const struct watch *w);

void watch_begin(struct watch *w, int64_t now_ms); /* new processes */
void watch_line(struct watch *w, int rank, const char *line, int64_t now_ms);

/* The next broken rule; false: none (any more). */
bool watch_look(struct watch *w, int64_t now_ms, struct watch_verdict *out);

#endif
