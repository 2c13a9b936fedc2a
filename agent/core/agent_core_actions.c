/* SPDX-License-Identifier: Apache-2.0 */
/* agent_core_actions.c - actions shared by several phases of an agent's core; see agent_core.h
 *
 * Pure: no clock, no I/O.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "agent/core/agent_core_internal.h"
#include "agent/core/agent_effects.h"
#include "agent/core/cause.h"
#include "engine/base/json_make.h"

void agent_core_timer(struct agent_core *c, struct agent_effects *out, int64_t at_ms)
{
    if (c->timer_at == at_ms)
        return;
    c->timer_at = at_ms;
    agent_effects_add(out, DO_TIMER)->at_ms = at_ms;
}

void agent_core_signal(struct agent_effects *out, int signo)
{
    agent_effects_add(out, DO_SIGNAL)->signo = signo;
}

static void spawn(struct agent_core *c, const struct agent_input *in, struct agent_effects *out)
{
    c->phase = AGENT_SPAWNING;
    c->generation++;
    c->generation_ms = in->now_ms;
    c->ranks_ms = 0;
    c->alive = 0;
    c->done_seen = c->told = false;
    root_cause_clear(&c->blame);
    c->note = (struct success_note){0};
    progress_tracker_begin(&c->tracker);
    memset(c->ranks, 0, (size_t)c->job.np * sizeof(*c->ranks));
    struct agent_effect *e = agent_effects_add(out, DO_SPAWN);
    e->generation = c->generation;
    e->resume_step = c->tracker.checkpoint;
    e->skip_step = c->nan_policy.any ? c->nan_policy.step : -1;
    e->forget = c->nan_policy.back;
    e->keep = c->keep > 0;
    e->fallbacks = c->fallback.used;
    c->nan_policy.back = false;
}

/* On every node, before anything runs in a container. */
static void pull(struct agent_core *c, struct agent_effects *out)
{
    c->phase = AGENT_SETUP;
    c->stage = STAGE_FLAG;
    c->pulling = true;
    agent_effects_event(out, "pull_started", json_deep_copy(c->image));
    agent_effects_add(out, DO_SETUP)->pull = true;
}

/* On every node: ranks read the cache only. */
static void fetch(struct agent_core *c, struct agent_effects *out)
{
    c->phase = AGENT_SETUP;
    c->stage = STAGE_FLAG;
    c->fetching = true;
    agent_effects_event(out, "fetch_started", json_object());
    agent_effects_add(out, DO_SETUP)->fetch = true;
}

void agent_core_start(struct agent_core *c, const struct agent_input *in, struct agent_effects *out)
{
    if (c->image && !c->pulled) {
        pull(c, out);
        return;
    }
    if (c->job.has_fetch && !c->fetched) {
        fetch(c, out);
        return;
    }
    if (!c->job.has_setup || c->setup_done) {
        spawn(c, in, out);
        return;
    }
    c->phase = AGENT_SETUP;
    c->stage = STAGE_FLAG;
    agent_effects_event(out, "setup_started", json_object());
    agent_effects_add(out, DO_SETUP);
}

void agent_core_ask_report(const struct agent_core *c, bool inspect, struct agent_effects *out)
{
    struct agent_effect *e = agent_effects_add(out, DO_INCIDENT);
    e->generation = c->generation;
    e->rank = c->blame.exit.rank;
    e->text = c->blame.verdict.text;
    e->inspect = inspect;
}

void agent_core_stop_cascade(struct agent_core *c, int64_t now_ms, int64_t grace_ms, struct agent_effects *out)
{
    c->kill_at = now_ms + grace_ms;
    c->stage = STAGE_TERM;
    agent_core_signal(out, SIGTERM);
    agent_core_timer(c, out, c->kill_at);
}

void agent_core_close(struct agent_core *c, struct agent_effects *out, const char *result,
                      bool retry_helps, bool gave_up, const char *text)
{
    if (c->preempted && c->blame.verdict.cause == CAUSE_NONE && strcmp(result, "stopped") == 0)
        c->blame.verdict.cause = CAUSE_PREEMPTED;
    c->phase = AGENT_CLOSING;
    c->result = result;
    c->retry_helps = retry_helps;
    c->gave_up = gave_up;
    snprintf(c->text, sizeof(c->text), "%s", text);
    agent_core_timer(c, out, 0);
    agent_effects_add(out, DO_CLEANUP)->generation = 0;
}
