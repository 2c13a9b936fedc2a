/* SPDX-License-Identifier: Apache-2.0 */
/* deadline_timer.h - the machine will be taken away: a checkpoint in time before that
 *
 * Notebooks and batch systems say when (`session` of docs/FACTS.md).  They seldom keep to the second,
 * so nothing is stopped for it: a checkpoint is asked for 10 minutes before, which leaves time for a
 * slow mirror, and again 3 minutes and 1 minute before.
 */
#ifndef AGENT_ATTEMPT_DEADLINE_TIMER_H
#define AGENT_ATTEMPT_DEADLINE_TIMER_H

#include <jansson.h>
#include <stdint.h>

enum { DEADLINE_TIMER_TEXT = 160 };

/* Unix seconds; 0: nobody says. now_s: when the facts were found. */
int64_t deadline_timer_of(const json_t *facts, int64_t now_s);

/* The next moment to save, Unix seconds, after now_s; 0: none is left. */
int64_t deadline_timer_next(int64_t deadline_s, int64_t now_s);

/* "this machine is taken away in 10 min: a checkpoint is asked for"; who: NULL, or which one it is. */
const char *deadline_timer_text(char out[DEADLINE_TIMER_TEXT], const char *who, int64_t deadline_s,
                                int64_t now_s);

#endif
