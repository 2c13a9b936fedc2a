/* SPDX-License-Identifier: Apache-2.0 */
/* deadline_timer.h - when to request checkpoints before the machine ends
 *
 * Notebooks and batch systems announce the end (`session` of docs/DISTRIBUTED.md), rarely to the second.
 * Nothing is stopped: a checkpoint is requested 10 minutes before the end, which leaves time for a slow mirror, and
 * again 3 minutes and 1 minute before.
 */
#ifndef AGENT_ATTEMPT_DEADLINE_TIMER_H
#define AGENT_ATTEMPT_DEADLINE_TIMER_H

#include <jansson.h>
#include <stdint.h>

enum { DEADLINE_TIMER_TEXT = 160 };

/* Unix seconds; 0: not known. now_s: time of the facts. */
int64_t deadline_timer_of(const json_t *facts, int64_t now_s);

/* The next time to save, in Unix seconds, after now_s; 0: none left. */
int64_t deadline_timer_next(int64_t deadline_s, int64_t now_s);

/* "this machine ends in 10 min: requesting a checkpoint"; who: NULL, or the name of the machine. */
const char *deadline_timer_text(char out[DEADLINE_TIMER_TEXT], const char *who, int64_t deadline_s, int64_t now_s);

#endif
