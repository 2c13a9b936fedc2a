/* SPDX-License-Identifier: Apache-2.0 */
/* agent_core_nodes.c - a node is lost or never connected, or the lease is lost; see agent_core.h
 *
 * Pure: no clock, no I/O.
 */
#include <stdio.h>

#include "agent/core/agent_core_internal.h"
#include "agent/core/agent_effects.h"
#include "agent/core/cause.h"
#include "engine/base/json_make.h"

static void tell(struct agent_core *c, const struct agent_lost *l, struct agent_effects *out)
{
    c->lost = true;
    c->lost_cause = l->lease ? CAUSE_DIR_IN_USE : CAUSE_NODE_LOST;
    snprintf(c->lost_text, sizeof(c->lost_text), "%s", l->text);
    if (l->lease)
        agent_effects_event(out, "warning", json_make("{s:n, s:s}", "rank", "text", l->text));
    else
        agent_effects_event(out, "node_lost", json_make("{s:i, s:s, s:s}", "node", l->node, "name",
                                                    l->name, "text", l->text));
}

/* The exit of its ranks will never be reported: count them as ended. */
static void blame_node(struct agent_core *c, const struct agent_lost *l, int64_t now_ms)
{
    struct verdict v = {.cause = c->lost_cause, .retry_helps = true};
    snprintf(v.text, sizeof(v.text), "%s", l->text);
    snprintf(v.detail, sizeof(v.detail), "%s", l->text);
    root_cause_set(&c->blame,
                   &(struct agent_exit){.generation = c->generation,
                                        .rank = l->ranks > 0 ? l->first_rank : -1,
                                        .none = true},
                   &v, now_ms);
}

static void forget_ranks(struct agent_core *c, const struct agent_lost *l, int64_t now_ms)
{
    for (int r = l->first_rank; r >= 0 && r < l->first_rank + l->ranks && r < c->job.np; r++)
        if (c->ranks[r].alive) {
            c->ranks[r].alive = false;
            c->ranks[r].time = (struct spell_rank){.exit = now_ms - c->ranks_ms};
            c->alive--;
        }
}

/* A complete run is not affected. A rank that hung or reported lost peers may have waited for
 * this node; any other failure came before the loss. */
static bool decides(const struct agent_core *c)
{
    if (c->done_seen)
        return false;
    return !c->blame.failed || c->blame.verdict.echo || c->blame.exit.none;
}

/* While ranks run, or only the cleanup is left to do. */
static void lose_ranks(struct agent_core *c, const struct agent_input *in, struct agent_effects *out)
{
    const bool cleaned = c->phase == AGENT_ENDING && c->stage == STAGE_CLEANUP;
    if (!cleaned && decides(c))
        blame_node(c, &in->lost, in->now_ms);
    forget_ranks(c, &in->lost, in->now_ms);
    if (!cleaned)
        agent_core_end_others(c, in->now_ms, out);
    if (c->lost_cause == CAUSE_DIR_IN_USE && c->phase == AGENT_ENDING && !cleaned && !c->done_seen)
        agent_core_stop_cascade(c, in->now_ms, 0, out); /* SIGKILL follows at once */
    agent_core_detach_cancel(c, in->now_ms, out);
}

void agent_core_lose(struct agent_core *c, const struct agent_input *in, struct agent_effects *out)
{
    if (c->phase == AGENT_IDLE || c->phase == AGENT_CLOSING || c->phase == AGENT_OVER)
        return;
    tell(c, &in->lost, out);
    switch (c->phase) {
    case AGENT_RUNNING:
    case AGENT_ENDING:
        lose_ranks(c, in, out);
        break;
    case AGENT_SPAWNING:
        blame_node(c, &in->lost, in->now_ms);
        agent_core_generation_over(c, in->now_ms, out);
        break;
    default: /* SETUP, BACKOFF */
        blame_node(c, &in->lost, in->now_ms);
        if (c->stop_asked)
            agent_core_close(c, out, "stopped", false, false, c->stop_reason);
        else
            agent_core_close(c, out, "failed", true, false, c->lost_text);
        break;
    }
}

void agent_core_nobody_came(struct agent_core *c, const struct agent_input *in, struct agent_effects *out)
{
    const struct agent_lost *l = in->launch.missing;
    char now[FINGERPRINT];
    tell(c, l, out);
    blame_node(c, l, in->now_ms);
    restart_policy_fingerprint(now, cause_name(CAUSE_NODE_LOST), &c->blame.exit, l->name, "", -1);
    restart_policy_failure(&c->restart_policy, now, 0);
    agent_core_close(c, out, "failed", true, false, l->text);
}
