/* SPDX-License-Identifier: Apache-2.0 */
/* deferred_events.c - see deferred_events.h */
#include "agent/nodes/deferred_events.h"

#include <stdlib.h>
#include <string.h>

#include "agent/core/agent_core.h"

struct deferred_events {
    struct deferred_events *next;
    struct agent_exit       exit;
    char                   *last_lines, *kernel;
    json_t *line; /* NULL: the event is an exit */
};

static struct deferred_events *add(struct deferred_events **list)
{
    struct deferred_events *h = calloc(1, sizeof(*h));
    while (*list)
        list = &(*list)->next;
    *list = h;
    return h;
}

void deferred_events_exit(struct deferred_events **list, const struct agent_exit *e)
{
    struct deferred_events *h = add(list);
    if (!h)
        return;
    h->exit = *e;
    h->exit.last_lines = h->last_lines = e->last_lines ? strdup(e->last_lines) : NULL;
    h->exit.kernel = h->kernel = e->kernel ? strdup(e->kernel) : NULL;
}

void deferred_events_line(struct deferred_events **list, int generation, int rank,
                          const json_t *line)
{
    struct deferred_events *h = add(list);
    if (!h)
        return;
    h->exit = (struct agent_exit){.generation = generation, .rank = rank};
    h->line = json_deep_copy(line);
}

static void tell(const struct deferred_events *h, const struct deferred_events_hooks *hooks)
{
    if (h->line)
        hooks->line(hooks->arg, h->exit.generation, h->exit.rank, h->line);
    else
        hooks->exited(hooks->arg, &h->exit);
}

void deferred_events_tell(struct deferred_events **list, const struct deferred_events_hooks *hooks)
{
    for (struct deferred_events *h; (h = *list);) {
        *list = h->next;
        if (hooks)
            tell(h, hooks);
        json_decref(h->line);
        free(h->last_lines);
        free(h->kernel);
        free(h);
    }
}
