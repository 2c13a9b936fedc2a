/* SPDX-License-Identifier: Apache-2.0 */
/* silence.h - how long the ranks of a job have shown no sign of life, and how long is too long
 *
 * Pure: no clock, no I/O.
 * Keeps what is learned of the job over its generations and attempts: the norm of its activity, its
 * longest quiet time, how long it was watched, and the number of false alarms.
 */
#ifndef AGENT_MONITOR_SILENCE_H
#define AGENT_MONITOR_SILENCE_H

#include <jansson.h>
#include <stdint.h>

#include "agent/core/hang_rules.h"
#include "agent/monitor/activity.h"
#include "agent/monitor/step_pace.h"

struct silence {
    struct activity_norm norm;
    int64_t watched_ms, longest_ms;
    int64_t quiet_ms; /* all ranks together, at present */
    int     false_alarms;
    struct step_pace pace; /* of this generation */
};

/* A new generation. */
void silence_begin(struct silence *s);

/* Advances time; quiet_ms: the time since the last sign of life of any rank. */
void silence_pass(struct silence *s, int64_t passed_ms, int64_t quiet_ms);

/* -1: the silence of this job is not watched. blocked: a thread waits for a disk or a network file system, whose
 * progress may not be visible, so the rhythm of the steps does not count. */
int64_t silence_deadline_ms(const struct silence *s, const struct hang_rules *rules, bool blocked);

/* For the next attempt: {"longest_ms", "watched_ms", "false_alarms", "usual": {}}, a new object, or NULL if there is
 * nothing worth storing; and the function that reads it, which accepts NULL. */
json_t *silence_learned(const struct silence *s);
void silence_remember(struct silence *s, const json_t *learned);

#endif
