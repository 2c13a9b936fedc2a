/* SPDX-License-Identifier: Apache-2.0 */
/* deferred_events.h - news of ranks that came too early, kept in order until they may be told
 *
 * Some ranks of a generation may say or do something while others are still being started on other
 * nodes, and nobody can make sense of that before all are there.
 */
#ifndef AGENT_NODES_DEFERRED_EVENTS_H
#define AGENT_NODES_DEFERRED_EVENTS_H

#include <jansson.h>

struct agent_exit;
struct deferred_events;

struct deferred_events_hooks {
    void (*exited)(void *arg, const struct agent_exit *e);
    void (*line)(void *arg, int generation, int rank, const json_t *line);
    void *arg;
};

/* To the end of *list; the texts are copied.  What there is no memory for is dropped. */
void deferred_events_exit(struct deferred_events **list, const struct agent_exit *e);
void deferred_events_line(struct deferred_events **list, int generation, int rank,
                          const json_t *line);

/* Tells all of it, in order, and empties the list; hooks NULL: only that. */
void deferred_events_tell(struct deferred_events **list, const struct deferred_events_hooks *hooks);

#endif
