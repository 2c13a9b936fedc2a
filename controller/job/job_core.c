/* SPDX-License-Identifier: Apache-2.0 */
/* job_core.c - see job_core.h
 *
 * decide_*() turns an input into events; job_core_apply.c applies them to the job.
 */
#include "controller/job/job_core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/cause.h"
#include "agent/wire/wire.h"
#include "controller/job/job_core_internal.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

int job_core_replay(struct job_core *core, const struct core_event *event, struct err *err)
{
    struct job_core next = *core;
    enum job_effect effect = DO_NOTHING;
    if (job_core_apply(&next, event, &effect, err) < 0)
        return -1;
    *core = next;
    return 0;
}

void job_core_init(struct job_core *core, int64_t id)
{
    *core = (struct job_core){ .id = id, .np = -1, .step = -1, .steps = -1, .best = -1,
                               .checkpoint = -1, .gen_from = -1, .stored_step = -1, .attempt_best = -1 };
}

int job_core_can_edit(const struct job_core *c, struct err *err)
{
    if (c->state == JOB_PENDING)
        return 0;
    return err_set(err, ERR_CONFLICT, "job %lld is already %s; only a job that has not started can be edited, so "
                   "submit the changed spec as a new job", (long long)c->id, job_state_name(c->state));
}

bool job_core_waits(const struct job_core *c)
{
    return c->state == JOB_PENDING || (c->state == JOB_RECOVERING && !c->live);
}

int64_t job_core_backoff_left(const struct job_core *c, int64_t wall_ms)
{
    const int64_t left = c->not_before_ms - wall_ms;
    return left < 0 ? 0 : left < c->backoff_ms ? left : c->backoff_ms;
}

int64_t job_core_boot(const char *boot_id)
{
    return (int64_t)(strtoull(boot_id, NULL, 16) & 0xffffffff);     /* up to the first hyphen */
}

json_t *job_core_clock(int64_t boot, const struct clock_jump *clock)
{
    return json_make("[I, I, I]", (json_int_t)boot, (json_int_t)clock->ahead_ms, (json_int_t)clock->asleep_ms);
}

void job_core_spent(struct goodput *out, const struct job_core *core, int64_t now_ms)
{
    job_core_spent_still(out, core, now_ms, now_ms);
}

void job_core_spent_still(struct goodput *out, const struct job_core *core, int64_t now_ms, int64_t since_ms)
{
    struct job_core c = *core;
    if (c.state != JOB_DONE) {
        job_core_charge(&c, now_ms);
        job_goodput_guess(&c.goodput, since_ms, c.step > c.gen_best || c.gen_from >= c.gen_best);
        if (since_ms < now_ms)
            job_goodput_until(&c.goodput, now_ms, BUCKET_HANG);
        job_goodput_close(&c.goodput);
    }
    *out = c.goodput.spent;
}

/* ---- inputs to events ---- */

static int add(struct core_output *out, struct job_core *next, const struct core_input *in,
               enum event_kind kind, json_t *body, struct err *err)
{
    if (!body)
        return err_set(err, ERR_MEMORY, "out of memory for an event");
    struct core_event *e = &out->events[out->count++];
    *e = (struct core_event){ .kind = kind, .name = event_kind_name(kind),
                              .keep = !event_kind_is(kind, EVENT_IS_LIVE),
                              .at_ms = in->at_ms, .attempt = next->attempt, .body = body };
    if (in->kind == CORE_AGENT_EVENT && out->count == 1) {
        e->from_agent = true;
        e->name = in->event;
        e->attempt = in->attempt;
    }
    if (in->kind == CORE_PLACE)
        e->attempt = next->attempt + 1;
    return job_core_apply(next, e, &out->effect, err);
}

static int add_input(struct core_output *out, struct job_core *next, const struct core_input *in,
                     enum event_kind kind, struct err *err)
{
    /* Shared: holders of an event only read it. jansson keeps the reference count in the value. */
    json_t *body = in->body ? json_incref((json_t *)(uintptr_t)in->body) : json_object();
    return add(out, next, in, kind, body, err);
}

static int add_done(struct core_output *out, struct job_core *next, const struct core_input *in,
                    enum job_result result, int exit_code, const char *reason, struct err *err)
{
    return add(out, next, in, EVENT_DONE,
               json_make("{s:s, s:s, s:i}", "result", job_result_name(result), "reason", reason,
                         "exit_code", exit_code), err);
}

/* The attempt is over after a stop request. */
static int end_as_asked(struct core_output *out, struct job_core *next, const struct core_input *in, struct err *err)
{
    char reason[CORE_REASON];
    snprintf(reason, sizeof(reason), "%s", next->reason);
    if (next->stop_limit)
        return add_done(out, next, in, RESULT_FAILED, 1, reason, err);
    return add_done(out, next, in, RESULT_CANCELLED, 3, reason, err);
}

static int again_or_not(struct core_output *out, struct job_core *next, const struct core_input *in,
                        const struct retry_case *c, struct err *err)
{
    struct retry_verdict v;
    retry_decide(&v, &next->rules, c);
    if (!v.again)
        return add_done(out, next, in, RESULT_FAILED, v.exit_code, v.text, err);
    return add(out, next, in, EVENT_RETRY,
               json_make("{s:s, s:I, s:I}", "text", v.text, "delay_ms", (json_int_t)v.delay_ms,
                         "not_before_ms", (json_int_t)(in->at_ms + v.delay_ms)), err);
}

static int decide_attempt_ended(struct core_output *out, struct job_core *next,
                                const struct core_input *in, struct err *err)
{
    const char *result = field_text(in->body, "result"), *text = field_text(in->body, "text");
    if (strcmp(result, "succeeded") == 0)
        return add_done(out, next, in, RESULT_SUCCEEDED, 0, text, err);
    if (next->state == JOB_STOPPING)
        return end_as_asked(out, next, in, err);
    const json_t *helps = json_object_get(in->body, "retry_helps");
    const struct retry_case c = {
        .cause = field_text(in->body, "cause"),
        .text = text[0] ? text : "the attempt ended",
        .helps = !json_is_false(helps) || strcmp(result, "stopped") == 0,
        .gave_up = field_true(in->body, "gave_up"),
        .early = field_true(in->body, "early"),
        .failures = next->failures, .same = next->same, .step = next->step,
        .places = in->places, .random = in->random,
    };
    return again_or_not(out, next, in, &c, err);
}

static int decide_agent_lost(struct core_output *out, struct job_core *next,
                             const struct core_input *in, struct err *err)
{
    if (!next->live || in->attempt != next->attempt)
        return err_set(err, ERR_CONFLICT, "attempt %lld of job %lld is over",
                       (long long)in->attempt, (long long)next->id);
    const enum event_kind kind = next->agent_known ? EVENT_AGENT_LOST : EVENT_START_FAILED;
    const char *told = in->event || next->agent_known ? in->event : event_kind_name(kind);
    enum cause cause = CAUSE_UNKNOWN;
    cause_parse(&cause, told ? told : event_kind_name(kind));
    if (add(out, next, in, kind,
            json_make("{s:s, s:o, s:s*, s:s*}", "text", in->text, "step",
                      next->step >= 0 ? json_integer(next->step) : json_null(), "cause", told, "node",
                      kind == EVENT_START_FAILED ? next->node : NULL), err) < 0)
        return -1;
    if (next->state == JOB_STOPPING)
        return end_as_asked(out, next, in, err);
    const struct retry_case c = { .cause = cause_name(cause), .text = in->text,
                                  .helps = cause_retry_helps(cause), .places = in->places,
                                  .failures = next->failures, .same = next->same,
                                  .step = next->step, .random = in->random };
    return again_or_not(out, next, in, &c, err);
}

static int decide_stop(struct core_output *out, struct job_core *next, const struct core_input *in, struct err *err)
{
    bool limit = field_true(in->body, "limit");
    if (next->state != JOB_DONE && !next->live)
        return add_done(out, next, in, limit ? RESULT_FAILED : RESULT_CANCELLED, limit ? 1 : 3,
                        field_text(in->body, "reason"), err);
    return add_input(out, next, in, EVENT_STOP_REQUESTED, err);
}

/* The fence: only the live attempt's agent may send events. */
static int hear(const struct job_core *c, const struct core_input *in, struct err *err)
{
    const struct wire_id live = { c->id, c->live ? c->attempt : -1, c->nonce };
    const struct wire_id speaks = { c->id, in->attempt, in->nonce };
    if (wire_id_same(&live, &speaks))
        return 0;
    return err_set(err, ERR_CONFLICT, "attempt %lld of job %lld is over", (long long)in->attempt, (long long)c->id);
}

static int decide_agent_up(struct core_output *out, struct job_core *next, const struct core_input *in, struct err *err)
{
    if (hear(next, in, err) < 0)
        return -1;
    if (!next->agent_known)
        return add_input(out, next, in, EVENT_AGENT_UP, err);
    struct job_step step;
    if (job_fsm_step(&step, next->state, EV_UP, err) < 0)
        return -1;
    out->effect = step.effect;
    return 0;
}

static int decide_agent_event(struct core_output *out, struct job_core *next,
                              const struct core_input *in, struct err *err)
{
    const enum event_kind kind = event_kind_of(in->event);
    if (hear(next, in, err) < 0 || add_input(out, next, in, kind, err) < 0)
        return -1;
    return kind == EVENT_ATTEMPT_ENDED ? decide_attempt_ended(out, next, in, err) : 0;
}

static int decide_hold(struct core_output *out, struct job_core *next, const struct core_input *in, struct err *err)
{
    const enum event_kind kind = in->kind == CORE_HOLD ? EVENT_HELD : EVENT_RELEASED;
    if (next->state == JOB_PENDING && next->held == (in->kind == CORE_HOLD))
        return 0;
    if (next->state != JOB_PENDING && next->state != JOB_DONE)
        return err_set(err, ERR_CONFLICT, "job %lld is already %s; only pending jobs can be %s",
                       (long long)next->id, job_state_name(next->state), event_kind_name(kind));
    return add_input(out, next, in, kind, err);
}

static int decide_edit(struct core_output *out, struct job_core *next, const struct core_input *in, struct err *err)
{
    return job_core_can_edit(next, err) < 0 ? -1 : add_input(out, next, in, EVENT_EDITED, err);
}

static int decide(struct core_output *out, struct job_core *next, const struct core_input *in, struct err *err)
{
    switch (in->kind) {
    case CORE_SUBMIT:
        out->effect = DO_SCHEDULE;
        return add_input(out, next, in, EVENT_SUBMITTED, err);
    case CORE_PLACE:
    case CORE_REFUSE:
        if (!job_core_waits(next))
            return err_set(err, ERR_CONFLICT, "job %lld is not pending", (long long)next->id);
        if (in->kind == CORE_REFUSE)
            return add_done(out, next, in, RESULT_FAILED, 1, in->text, err);
        return add_input(out, next, in, EVENT_PLACED, err);
    case CORE_AGENT_UP:
        return decide_agent_up(out, next, in, err);
    case CORE_AGENT_EVENT:
        return decide_agent_event(out, next, in, err);
    case CORE_AGENT_LOST:
        return decide_agent_lost(out, next, in, err);
    case CORE_CLOCK:
        return add_input(out, next, in, EVENT_CLOCK, err);
    case CORE_STOP:
        return decide_stop(out, next, in, err);
    case CORE_HOLD:
    case CORE_RELEASE:
        return decide_hold(out, next, in, err);
    case CORE_EDIT:
        return decide_edit(out, next, in, err);
    case CORE_SETTLE:
        return next->state == JOB_PENDING ? add_input(out, next, in, EVENT_DONE, err)
               : err_set(err, ERR_CONFLICT, "job %lld has started", (long long)next->id);
    case CORE_INPUTS:
        break;
    }
    return err_set(err, ERR_BUG, "unknown input: %d", (int)in->kind);
}

int job_core_step(struct job_core *core, const struct core_input *in, struct core_output *out, struct err *err)
{
    struct job_core next = *core;
    struct core_output made = { .effect = DO_NOTHING };
    if (decide(&made, &next, in, err) < 0) {
        core_output_fini(&made);
        return -1;
    }
    *core = next;
    *out = made;
    return 0;
}

void core_output_fini(struct core_output *out)
{
    for (int i = 0; i < out->count; i++)
        json_decref(out->events[i].body);
    out->count = 0;
}
