/* SPDX-License-Identifier: Apache-2.0 */
/* nodes.c - see world.h: the second node of an attempt, which may be lost at any time */
#include <string.h>

#include "agent/core/agent_core.h"
#include "agent/core/agent_effects.h"
#include "tests/sim/world.h"

enum { NOTICED_MS = 22500 };

int node_first_rank(const struct agent *a)
{
    return (a->np + 1) / 2;
}

void node_may_fall(struct world *w, int job, int attempt, int odds, int64_t in_ms)
{
    struct agent *a = &w->agents[job][attempt];
    if (!w->truth[job].two_nodes || a->np < 2 || a->fallen || !fault(w, odds, HARM_NODE))
        return;
    a->fallen = true;
    for (int r = node_first_rank(a); r < a->np; r++) {
        a->ranks_live -= a->rank[r];
        a->rank[r] = false;
    }
    plan(w, in_ms + between(w, 0, NOTICED_MS), NODE_SILENT, job, attempt, a->life);
}

struct agent_lost node_is_lost(const struct agent *a)
{
    const int first = node_first_rank(a);
    return (struct agent_lost){ .node = 1, .name = "n1", .text = "n1 sent no heartbeat",
                                .first_rank = first, .ranks = a->np - first };
}

/* Where it goes on is not for the agent to choose, nor why it ended to forget. */
void nodes_effect(struct world *w, int job, int attempt, const struct agent_effect *e)
{
    struct agent *a = &w->agents[job][attempt];
    if (e->kind == DO_EVENT && strcmp(e->event, "node_lost") == 0)
        a->lost = true;         /* an attempt that is being closed does not say so any more */
    if (!a->lost)
        return;
    if (e->kind == DO_SPAWN || e->kind == DO_SETUP)
        broke(w, "agent %d.%d starts something, and a node of it is lost", job, attempt);
    if (e->kind != DO_EVENT || strcmp(e->event, "attempt_ended") != 0)
        return;
    const char *result = json_string_value(json_object_get(e->body, "result"));
    const char *cause = json_string_value(json_object_get(e->body, "cause"));
    if (strcmp(result, "failed") == 0 && (strcmp(cause, "node_lost") != 0 ||
                                          !json_is_true(json_object_get(e->body, "retry_helps"))))
        broke(w, "agent %d.%d lost a node and ends as %s", job, attempt, cause);
}
