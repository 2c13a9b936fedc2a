/* SPDX-License-Identifier: Apache-2.0 */
/* agent_event.h - bodies of the events that end a rank, a generation or an attempt
 *
 * Pure: no clock, no I/O.
 * All return a new object, or NULL when out of memory.
 */
#ifndef AGENT_CORE_AGENT_EVENT_H
#define AGENT_CORE_AGENT_EVENT_H

#include <jansson.h>

struct agent_exit;
struct root_cause;
struct progress_tracker;
struct restart_policy;

/* The kinds of all events that an agent sends (bodies: agent/wire/wire.h), ended by NULL. */
extern const char *const agent_event_kinds[];

/* Adds exit_code or signal if the process has ended. */
void agent_event_add_exit(json_t *body, const struct agent_exit *e);

/* The body of generation_ended; `otherwise` is the text if it did not fail. */
json_t *agent_event_generation_ended(int generation, const struct root_cause *blame,
                                     const struct progress_tracker *tracker,
                                     const struct restart_policy *restart_policy, const char *otherwise);

/* The part of attempt_ended's body that does not depend on the decision. */
json_t *agent_event_totals(const struct root_cause *blame, const struct progress_tracker *tracker,
                           const struct restart_policy *restart_policy);

#endif
