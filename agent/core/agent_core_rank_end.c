/* SPDX-License-Identifier: Apache-2.0 */
/* agent_core_rank_end.c - exits and hangs of ranks: root cause or cascade; see agent_core.h
 *
 * Pure: no clock, no I/O.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "agent/core/agent_core_internal.h"
#include "agent/core/agent_effects.h"
#include "agent/core/agent_event.h"
#include "agent/core/cause.h"
#include "engine/base/json_make.h"

enum {
    REPORT_MS = 2500,    /* for a report of a hang, which may use a debugger */
    HANG_GRACE_MS = 1500 /* after the report; a hung rank never reaches a step boundary */
};

/* Did it end because jobctl stopped it?  A signal that jobctl did not send is its own failure. */
static bool by_us(const struct agent_core *c, const struct agent_exit *e)
{
    int signo = e->signalled ? e->signo : e->exit_code > 128 ? e->exit_code - 128 : 0;
    return c->phase == AGENT_ENDING &&
           (signo == 0 || signo == SIGTERM || c->stage >= STAGE_ABORT ||
            (signo == SIGABRT && agent_core_wants_stacks(c)));
}

void agent_core_exited(struct agent_core *c, const struct agent_input *in, struct agent_effects *out)
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
    json_t *body = json_make("{s:i, s:i, s:I, s:I}", "generation", e->generation, "rank", e->rank,
                             "pid", (json_int_t)r->pid, "after_ms", (json_int_t)e->after_ms);
    agent_event_add_exit(body, e);
    if (body && c->blame.failed) /* cascade of another rank's failure */
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
        .command = e->command,
    };
    struct verdict v;
    cause_classify(&v, &evidence, e->rank);
    if (e->node)
        snprintf(v.text, sizeof(v.text), "rank %d on %.60s %.330s", e->rank, e->node, v.detail);
    /* The exit code of a command that is being stopped is not a failure, nor is the loss of a rank that was stopped. */
    if (!c->stop_asked || (c->job.engine && !v.echo))
        root_cause_consider(&c->blame, e, &v, in->now_ms);
    root_cause_stack(&c->blame, e);
    if (!c->job.engine && v.cause == CAUSE_NONE && !c->stop_asked) {
        success_note_exit(&c->note, e);
        r->ended_well = !c->blame.failed;
    }

    agent_core_end_others(c, in->now_ms, out);
    agent_core_join(c, in, out);
}

bool agent_core_wants_stacks(const struct agent_core *c)
{
    return !c->job.engine && !c->stop_asked && root_cause_hangs(&c->blame);
}

/* Nothing is stopped before the report is written, or is late. */
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
    const char *text = in->hang.text ? in->hang.text : "a rank hangs";
    snprintf(v.text, sizeof(v.text), "%s", text);
    snprintf(v.detail, sizeof(v.detail), "%s", text);
    snprintf(v.line, sizeof(v.line), "%s", in->hang.fault ? in->hang.fault : "");
    root_cause_set(&c->blame,
                   &(struct agent_exit){
                  .generation = c->generation, .rank = in->hang.rank, .none = true},
                   &v, in->now_ms);
    agent_effects_event(out, in->hang.fault ? "gpu_fault" : "hang",
                        json_make("{s:i, s:o, s:s, s:s}", "generation", c->generation, "rank",
                                  in->hang.rank >= 0 ? json_integer(in->hang.rank) : json_null(),
                                  "cause", cause_name(v.cause), "text", v.text));
    c->phase = AGENT_ENDING;
    c->stage = STAGE_REPORT;
    c->kill_at = in->now_ms + REPORT_MS + HANG_GRACE_MS;
    agent_core_timer(c, out, in->now_ms + REPORT_MS);
    agent_core_ask_report(c, true, out);
}

/* Ends a command so that it prints its stacks: escalate() in agent_core.c sends SIGABRT once more. */
void agent_core_stop_hanging(struct agent_core *c, int64_t now_ms, struct agent_effects *out)
{
    if (agent_core_wants_stacks(c)) {
        c->kill_at = now_ms + HANG_GRACE_MS;
        c->stage = STAGE_TERM;
        agent_core_signal(out, SIGABRT);
        agent_core_timer(c, out, c->kill_at);
        return;
    }
    agent_core_stop_cascade(c, now_ms, HANG_GRACE_MS, out);
}

void agent_core_reported(struct agent_core *c, const struct agent_input *in, struct agent_effects *out)
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

