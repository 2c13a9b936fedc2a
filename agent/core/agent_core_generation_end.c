/* SPDX-License-Identifier: Apache-2.0 */
/* agent_core_generation_end.c - goodput and event of a generation that has ended; see agent_core.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/core/agent_core_internal.h"
#include "agent/core/agent_effects.h"
#include "agent/core/agent_event.h"
#include "agent/core/cause.h"
#include "engine/base/text_append.h"

enum { ENDED_SHOWN = 4 };

static struct restart_signs signs(const struct agent_core *c)
{
    const struct root_cause *b = &c->blame;
    return (struct restart_signs){.command = !c->job.engine && b->verdict.cause == CAUSE_USER_EXIT && !b->exit.none,
                                  .ranks = c->job.np,
                                  .after_ms = b->exit.after_ms,
                                  .gpu_held = b->exit.gpu_held,
                                  .step = c->tracker.step >= 0 || c->tracker.best > 0,
                                  .checkpoint = c->tracker.checkpoint >= 0,
                                  .passing = b->verdict.passing};
}

/* Where its time went; NULL when no rank ever started. */
static json_t *time_spent(const struct agent_core *c, int64_t now_ms)
{
    const struct progress_tracker *p = &c->tracker;
    const int64_t t0 = c->ranks_ms;
    if (!t0)
        return NULL;
    const struct spell spell = {
        .wall = now_ms - t0,
        .started = p->started_ms ? p->started_ms - t0 : -1,
        .fresh = !p->fresh_ms ? -1 : p->fresh_ms == PROGRESS_ALL_FRESH ? 0 : p->fresh_ms - t0,
        .last = p->last_step_ms ? p->last_step_ms - t0 : -1,
        .failed = c->blame.failed ? c->blame.at_ms - t0 : -1,
        .hung = c->blame.verdict.cause == CAUSE_HANG_INIT ||
                c->blame.verdict.cause == CAUSE_HANG_STEP,
        .disk_ms = p->disk_ms,
        .disk_since = p->disk_since_ms ? p->disk_since_ms - t0 : -1,
    };
    struct goodput s = {0};
    for (int i = 0; i < c->job.np; i++)
        goodput_rank(&s, &spell, &c->ranks[i].time);
    return goodput_print(&s);
}

/* The others waited for it, or lost their connection to it. */
static void name_ended(struct agent_core *c)
{
    char *text = c->blame.verdict.text;
    int n = 0;
    if (!c->blame.failed || !(c->blame.verdict.echo || root_cause_hangs(&c->blame)))
        return;
    for (int i = 0; i < c->job.np; i++)
        if (c->ranks[i].ended_well && n++ < ENDED_SHOWN)
            text_append(text, sizeof(c->blame.verdict.text), "%s%d", n > 1 ? ", " : "; before that, rank ", i);
    if (n > ENDED_SHOWN)
        text_append(text, sizeof(c->blame.verdict.text), " and %d others", n - ENDED_SHOWN);
    if (n > 0)
        text_append(text, sizeof(c->blame.verdict.text), " had ended with code 0");
}

void agent_core_tell_over(struct agent_core *c, int64_t now_ms, struct agent_effects *out)
{
    if (c->told)
        return;
    c->told = true;
    json_t *held = progress_tracker_held(&c->tracker);
    if (held)
        agent_effects_step(out, held);
    root_cause_places(&c->blame);
    name_ended(c);
    int64_t gained = progress_tracker_gained(&c->tracker);
    if (c->blame.failed) {
        char now[FINGERPRINT];
        restart_policy_fingerprint(now, cause_name(c->blame.verdict.cause), &c->blame.exit,
                                   c->blame.verdict.detail, c->blame.verdict.place, c->tracker.step);
        restart_policy_failure(&c->restart_policy, now, gained);
        restart_policy_at_line(&c->restart_policy, c->blame.verdict.place[0], c->tracker.step > 0,
                               c->blame.exit.after_ms);
        const struct restart_signs s = signs(c);
        restart_policy_at_start(&c->restart_policy, &s);
        if (!agent_core_has_fallback(c))
            gpu_blame_failure(&c->gpu_blame, &c->blame.verdict, &c->blame.exit, gained);
    } else if (gained > 0) {
        restart_policy_progress(&c->restart_policy);
    }
    /* A run stopped by a user is not a success: some ranks may even have been killed. */
    const bool stopped = c->stop_asked && !c->done_seen, forced = stopped && c->grace_over;
    char success[CAUSE_TEXT];
    success_note_say(success, sizeof(success), &c->note, c->tracker.step, c->tracker.steps, "");
    const char *otherwise = !stopped ? success
                            : forced ? "stopped by SIGKILL: SIGTERM did not end it in time" : "stopped on request";
    json_t *body = agent_event_generation_ended(c->generation, &c->blame, &c->tracker, &c->restart_policy, otherwise);
    json_t *spent = time_spent(c, now_ms);
    if (body && spent)
        json_object_set(body, "goodput", spent);
    if (body)
        json_object_set_new(body, "np", json_integer(c->job.np));
    if (body && forced && !c->blame.failed)
        json_object_set_new(body, "forced", json_true());
    json_decref(spent);
    agent_effects_event(out, "generation_ended", body);
}

void agent_core_generation_over(struct agent_core *c, int64_t now_ms, struct agent_effects *out)
{
    agent_core_tell_over(c, now_ms, out);
    c->phase = AGENT_ENDING;
    c->stage = STAGE_CLEANUP;
    agent_core_timer(c, out, 0);
    agent_effects_add(out, DO_CLEANUP)->generation = c->generation;
}
