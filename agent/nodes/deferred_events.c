/* SPDX-License-Identifier: Apache-2.0 */
/* deferred_events.c - see deferred_events.h */
#include "agent/nodes/deferred_events.h"

#include <stdlib.h>
#include <string.h>

#include "agent/core/agent_core.h"

struct held {
    struct held      *next;
    struct agent_exit exit;
    char             *last_lines, *kernel;
    json_t           *line; /* NULL: it is an exit */
};

static struct held *add(struct held **list)
{
    struct held *h = calloc(1, sizeof(*h));
    while (*list)
        list = &(*list)->next;
    *list = h;
    return h;
}

void held_exit(struct held **list, const struct agent_exit *e)
{
    struct held *h = add(list);
    if (!h)
        return;
    h->exit = *e;
    h->exit.last_lines = h->last_lines = e->last_lines ? strdup(e->last_lines) : NULL;
    h->exit.kernel = h->kernel = e->kernel ? strdup(e->kernel) : NULL;
}

void held_line(struct held **list, int generation, int rank, const json_t *line)
{
    struct held *h = add(list);
    if (!h)
        return;
    h->exit = (struct agent_exit){.generation = generation, .rank = rank};
    h->line = json_deep_copy(line);
}

static void tell(const struct held *h, const struct held_hooks *hooks)
{
    if (h->line)
        hooks->line(hooks->arg, h->exit.generation, h->exit.rank, h->line);
    else
        hooks->exited(hooks->arg, &h->exit);
}

void held_tell(struct held **list, const struct held_hooks *hooks)
{
    for (struct held *h; (h = *list);) {
        *list = h->next;
        if (hooks)
            tell(h, hooks);
        json_decref(h->line);
        free(h->last_lines);
        free(h->kernel);
        free(h);
    }
}
