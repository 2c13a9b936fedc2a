/* SPDX-License-Identifier: Apache-2.0 */
/* deferred_events.h - queue of rank events that arrive before their generation is announced
 *
 * Some ranks of a generation may write lines or exit while others are still being started on other
 * nodes; such events make no sense before all ranks have started.
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

/* Appends to *list; strings are copied. Dropped when memory runs out. */
void deferred_events_exit(struct deferred_events **list, const struct agent_exit *e);
void deferred_events_line(struct deferred_events **list, int generation, int rank,
                          const json_t *line);

/* Delivers all events in order and empties the list; hooks NULL: only empties it. */
void deferred_events_tell(struct deferred_events **list, const struct deferred_events_hooks *hooks);

#endif
