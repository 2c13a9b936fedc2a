/* SPDX-License-Identifier: Apache-2.0 */
/* agent_core_end.c - a generation ends: whose end decides, what it cost, how the others are stopped;
 * see agent_core.h */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "agent/agent_core_parts.h"
#include "agent/agent_effects.h"
#include "agent/agent_event.h"
#include "agent/cause.h"

enum {
    CASCADE_GRACE_MS = 3000, /* for ranks whose neighbour has died */
    REPORT_MS = 2500,        /* for a report of a hang: it may use a debugger */
    HANG_GRACE_MS = 1500     /* then; who hangs will not come to a step boundary */
};

/* --- stopping who is left ---------------------------------------------------------------- */

static void ask_report(const struct agent_core *c, bool inspect, struct agent_effects *out)
{
    struct agent_effect *e = agent_effects_add(out, DO_INCIDENT);
    e->generation = c->generation;
    e->rank = c->blame.exit.rank;
    e->text = c->blame.verdict.text;
    e->inspect = inspect;
}

/* Others wait in vain for a rank that has failed: SIGTERM at once, SIGKILL soon. */
static void stop_cascade(struct agent_core *c, int64_t now_ms, int64_t grace_ms,
                         struct agent_effects *out)
{
    c->kill_at = now_ms + grace_ms;
    c->stage = STAGE_TERM;
    agent_core_signal(out, SIGTERM);
    agent_core_timer(c, out, c->kill_at);
}

void agent_core_stop_cascade(struct agent_core *c, int64_t now_ms, struct agent_effects *out)
{
    stop_cascade(c, now_ms, CASCADE_GRACE_MS, out);
}

/* --- how a generation ended --------------------------------------------------------------*/

/* Where its time went; NULL when there were no ranks. */
static json_t *time_spent(const struct agent_core *c, int64_t now_ms)
{
    const struct pace *p = &c->pace;
    const int64_t t0 = c->ranks_ms;
    if (!t0)
        return NULL;
    const struct spell spell = {
        .wall = now_ms - t0,
        .started = p->started_ms ? p->started_ms - t0 : -1,
        .fresh = p->fresh_ms ? p->fresh_ms - t0 : -1,
        .last = p->last_step_ms ? p->last_step_ms - t0 : -1,
        .failed = c->blame.failed ? c->blame.at_ms - t0 : -1,
        .hung = c->blame.verdict.cause == CAUSE_HANG_INIT ||
                c->blame.verdict.cause == CAUSE_HANG_STEP,
    };
    struct spending s = {0};
    for (int i = 0; i < c->job.np; i++)
        spending_rank(&s, &spell, &c->ranks[i].time);
    return spending_print(&s);
}

void agent_core_tell_over(struct agent_core *c, int64_t now_ms, struct agent_effects *out)
{
    if (c->told)
        return;
    c->told = true;
    json_t *held = pace_held(&c->pace);
    if (held)
        agent_effects_step(out, held);
    int64_t gained = pace_gained(&c->pace);
    if (c->blame.failed) {
        char now[FINGERPRINT];
        patience_fingerprint(now, cause_name(c->blame.verdict.cause), &c->blame.exit,
                             c->blame.verdict.detail, c->pace.step);
        patience_failure(&c->patience, now, gained);
        if (!agent_core_has_remedy(c))
            suspect_failure(&c->suspect, &c->blame.verdict, &c->blame.exit, gained);
    } else if (gained > 0) {
        patience_progress(&c->patience);
    }
    /* What a person asked for is not success: some may even have had to be killed. */
    const char *otherwise = !c->stop_asked || c->done_seen ? "every rank exited with code 0"
                            : c->grace_over ? "stopped by SIGKILL: SIGTERM was not enough"
                                            : "stopped as asked";
    json_t *body = agent_event_generation_ended(c->generation, &c->blame, &c->pace, &c->patience,
                                                otherwise);
    json_t *spent = time_spent(c, now_ms);
    if (body && spent)
        json_object_set(body, "spent", spent);
    json_decref(spent);
    agent_effects_event(out, "generation_ended", body);
}

void agent_core_generation_over(struct agent_core *c, int64_t now_ms, struct agent_effects *out)
{
    agent_core_tell_over(c, now_ms, out);
    c->phase = AGENT_ENDING;
    c->stage = STAGE_SWEEP;
    agent_core_timer(c, out, 0);
    agent_effects_add(out, DO_SWEEP)->generation = c->generation;
}

void agent_core_end_others(struct agent_core *c, int64_t now_ms, struct agent_effects *out)
{
    if (c->alive == 0) {
        agent_core_generation_over(c, now_ms, out);
    } else if (c->phase == AGENT_RUNNING && c->blame.failed) {
        c->phase = AGENT_ENDING;
        ask_report(c, false, out);
        if (!agent_core_await_parting(c, now_ms, out))
            agent_core_stop_cascade(c, now_ms, out);
    }
}

/* Did it end as we had asked?  A signal that we have not sent is its own. */
static bool by_us(const struct agent_core *c, const struct agent_exit *e)
{
    int signo = e->signalled ? e->signo : e->exit_code > 128 ? e->exit_code - 128 : 0;
    return c->phase == AGENT_ENDING && (signo == 0 || signo == SIGTERM || c->stage == STAGE_KILL);
}

void agent_core_exited(struct agent_core *c, const struct agent_input *in,
                       struct agent_effects *out)
{
    const struct agent_exit *e = &in->exited;
    bool ours = (c->phase == AGENT_RUNNING || c->phase == AGENT_ENDING) &&
                e->generation == c->generation && e->rank >= 0 && e->rank < c->job.np;
    if (!ours || !c->ranks[e->rank].alive)
        return;
    struct rank *r = &c->ranks[e->rank];
    r->alive = false;
    r->time = (struct spell_rank){in->now_ms - c->ranks_ms, e->init_ms, e->data_ms,
                                  e->checkpoint_ms};
    c->alive--;
    json_t *body = json_pack("{s:i, s:i, s:I, s:I}", "generation", e->generation, "rank", e->rank,
                             "pid", (json_int_t)r->pid, "after_ms", (json_int_t)e->after_ms);
    agent_event_add_exit(body, e);
    if (body && c->blame.failed) /* in the wake of another's failure */
        json_object_set_new(body, "cascade", json_true());
    agent_effects_event(out, "rank_exited", body);

    struct evidence evidence = {
        .engine = c->job.engine,
        .signalled = e->signalled,
        .signo = e->signo,
        .exit_code = e->exit_code,
        .stop_asked = by_us(c, e),
        .oom_killed = e->oom_killed,
        .reported = r->reported[0] ? r->reported : NULL,
        .text = r->text,
        .last_lines = e->last_lines,
        .kernel = e->kernel,
    };
    struct verdict v;
    cause_classify(&v, &evidence, e->rank);
    if (e->node)
        snprintf(v.text, sizeof(v.text), "rank %d on %.60s %.180s", e->rank, e->node, v.detail);
    /* What a command does when it is stopped is its own affair. */
    if (c->job.engine || !c->stop_asked)
        blame_consider(&c->blame, e, &v, in->now_ms);

    agent_core_end_others(c, in->now_ms, out);
    agent_core_join(c, in, out);
}

/* Nothing is stopped before the report is made, or has taken too long. */
void agent_core_hang(struct agent_core *c, const struct agent_input *in, struct agent_effects *out)
{
    const int generation = in->hang.generation;
    if (c->phase != AGENT_RUNNING || (generation != 0 && generation != c->generation))
        return;
    struct verdict v = {.cause = in->hang.fault   ? CAUSE_GPU_FAULT
                                 : in->hang.value ? CAUSE_NAN_LOSS
                                 : in->hang.init  ? CAUSE_HANG_INIT
                                                  : CAUSE_HANG_STEP,
                        .retry_helps = true};
    const char *text = in->hang.text ? in->hang.text : "a rank stands still";
    snprintf(v.text, sizeof(v.text), "%s", text);
    snprintf(v.detail, sizeof(v.detail), "%s", text);
    snprintf(v.line, sizeof(v.line), "%s", in->hang.fault ? in->hang.fault : "");
    blame_set(&c->blame,
              &(struct agent_exit){
                  .generation = c->generation, .rank = in->hang.rank, .none = true},
              &v, in->now_ms);
    agent_effects_event(out, in->hang.fault ? "gpu_fault" : "hang",
                        json_pack("{s:i, s:o, s:s, s:s}", "generation", c->generation, "rank",
                                  in->hang.rank >= 0 ? json_integer(in->hang.rank) : json_null(),
                                  "cause", cause_name(v.cause), "text", v.text));
    c->phase = AGENT_ENDING;
    c->stage = STAGE_REPORT;
    c->kill_at = in->now_ms + REPORT_MS + HANG_GRACE_MS;
    agent_core_timer(c, out, in->now_ms + REPORT_MS);
    ask_report(c, true, out);
}

void agent_core_stop_hanging(struct agent_core *c, int64_t now_ms, struct agent_effects *out)
{
    stop_cascade(c, now_ms, HANG_GRACE_MS, out);
}

void agent_core_reported(struct agent_core *c, const struct agent_input *in,
                         struct agent_effects *out)
{
    if (in->reported.body && c->phase != AGENT_CLOSING && c->phase != AGENT_OVER) {
        json_t *body = json_deep_copy(in->reported.body);
        if (body)
            json_object_set_new(body, "generation", json_integer(in->reported.generation));
        agent_effects_event(out, "incident", body);
    }
    if (c->phase == AGENT_ENDING && c->stage == STAGE_REPORT &&
        in->reported.generation == c->generation)
        agent_core_stop_hanging(c, in->now_ms, out);
}

