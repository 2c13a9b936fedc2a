/* SPDX-License-Identifier: Apache-2.0 */
/* watch.h - rules on a program's output: `watch:` in a job's spec
 *
 * Pure: no clock, no I/O.
 * Each rule has a pattern. A matching line of any rank is a sign of progress, and its first group,
 * if there is one, a number. A rule is broken when the first match does not appear within start_within, when no match
 * appears for `every` after that, or when the number is not below `below` (NaN never is). A broken rule is reported
 * once per generation.
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
    bool init;    /* no first match in time */
    bool value;   /* the number was not below the limit */
    char text[224];
};

/* rules: the canonical list, or NULL. */
int watch_create(struct watch **out, const json_t *rules, struct err *err);
void watch_destroy(struct watch *w);
bool watch_has_rules(const struct watch *w);

void watch_begin(struct watch *w, int64_t now_ms); /* a new generation */
void watch_line(struct watch *w, int rank, const char *line, int64_t now_ms);

/* The next broken rule; false: none left. */
bool watch_look(struct watch *w, int64_t now_ms, struct watch_verdict *out);

#endif
