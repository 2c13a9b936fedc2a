/* SPDX-License-Identifier: Apache-2.0 */
/* agent_event.h - the bodies of the agent's events, from a rank's lines and from its end
 *
 * Pure.  A rank's line is outside data: a field of the wrong type is left out
 * or null, never trusted.  All return a new object, or NULL when memory ran out.
 */
#ifndef AGENT_AGENT_EVENT_H
#define AGENT_AGENT_EVENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agent_exit;
struct blame;
struct pace;
struct patience;

/* An integer or number field; `missing` when absent or of another type. */
int64_t agent_event_int(const json_t *line, const char *key, int64_t missing);
double agent_event_number(const json_t *line, const char *key);
const char *agent_event_text(const json_t *line, const char *key);

/* {generation, the named fields of the line or null}; keys: "step loss ..." */
json_t *agent_event_relay(int generation, const json_t *line, const char *keys);

/* Adds exit_code or signal. */
void agent_event_add_exit(json_t *body, const struct agent_exit *e);

/* The body of generation_ended. */
json_t *agent_event_generation_ended(int generation, const struct blame *blame,
                                     const struct pace *pace, const struct patience *patience);

/* The part of attempt_ended's body that is not about how it was decided. */
json_t *agent_event_totals(const struct blame *blame, const struct pace *pace,
                           const struct patience *patience);

/* The last `most` lines of text as an array of strings, valid UTF-8 whatever it was. */
json_t *agent_event_lines(const char *text, int most);

#endif
