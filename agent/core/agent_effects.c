/* SPDX-License-Identifier: Apache-2.0 */
/* agent_effects.c - see agent_effects.h */
#include "agent/core/agent_effects.h"

struct agent_effect *agent_effects_add(struct agent_effects *out, enum agent_effect_kind kind)
{
    /* A step makes at most a handful of effects; the array leaves spare room. */
    if (out->n == AGENT_EFFECTS)
        out->n--;
    struct agent_effect *e = &out->list[out->n++];
    *e = (struct agent_effect){.kind = kind};
    return e;
}

void agent_effects_event(struct agent_effects *out, const char *event, json_t *body)
{
    struct agent_effect *e = agent_effects_add(out, DO_EVENT);
    e->event = event;
    e->body = body;
}

void agent_effects_step(struct agent_effects *out, json_t *body)
{
    agent_effects_event(out, "step", body);
    out->list[out->n - 1].droppable = true;
}

void agent_effects_fini(struct agent_effects *effects)
{
    for (int i = 0; i < effects->n; i++)
        json_decref(effects->list[i].body);
    effects->n = 0;
}
