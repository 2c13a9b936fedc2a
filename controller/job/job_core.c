/* SPDX-License-Identifier: Apache-2.0 */
/* job_core.c - see job_core.h
 *
 * decide_*() turns an input into events; apply_*() applies an event to the job.
 * Only apply_*() changes the job, so replay runs the same code.
 */
#include "controller/job/job_core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/wire/wire.h"
#include "engine/contract/err.h"
#include "engine/contract/field.h"
#include "engine/contract/progress.h"

#define DISK_FULL "disk_full" /* a cause of the agent (agent/core/cause.h), or why it could not start */

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static const char *const result_names[] = {
    [RESULT_NONE] = "", [RESULT_SUCCEEDED] = "succeeded", [RESULT_FAILED] = "failed",
    [RESULT_CANCELLED] = "cancelled",
};
_Static_assert(ARRAY_LEN(result_names) == RESULTS, "a result has no name");

const char *job_result_name(enum job_result result)
{
    return result_names[result];
}

int job_result_parse(enum job_result *result, const char *name)
{
    for (size_t i = 0; i < RESULTS; i++) {
        if (strcmp(result_names[i], name) == 0) {
            *result = (enum job_result)i;
            return 0;
        }
    }
    return -1;
}

static bool body_is(const json_t *body, const char *key)
{
    return json_is_true(json_object_get(body, key));
}

static void copy(char *out, size_t size, const char *text)
{
    snprintf(out, size, "%s", text);
    err_make_printable(out); /* snprintf may cut a UTF-8 character; JSON needs whole ones */
}

static bool failed(const json_t *generation_ended)
{
    const char *cause = field_text(generation_ended, "cause");
    return cause[0] && strcmp(cause, "none") != 0;
}

/* For stored events only: replay must give the same `best`. */
static void see_step(struct job_core *c, int64_t step)
{
    if (step < 0)
        return;
    c->step = c->stored_step = step;
    if (step > c->best)
        c->best = step;
}

/* An attempt without slots here waits in another scheduler's queue until its agent connects. */
static bool in_another_queue(const struct job_core *c)
{
    return c->live && !c->agent_known && c->cpus == 0 && c->gpus == 0;
}

/* After a failure; the wait for a full disk is a share of its own. */
static enum bucket back_off(const struct job_core *c)
{
    static const char full[] = DISK_FULL ":";
    return strncmp(c->fingerprint, full, sizeof(full) - 1) == 0 ? BUCKET_DISK : BUCKET_RESTART;
}

/* Charges the time since the last event while no ranks live. */
static void goodput_for(struct job_core *c, int64_t at_ms)
{
    struct job_goodput *a = &c->goodput;
    if (c->state == JOB_PENDING) {
        job_goodput_until(a, at_ms, c->held ? BUCKET_PAUSED : BUCKET_QUEUED);
    } else if (c->state == JOB_RECOVERING && !c->live) {
        if (c->not_before_ms > a->mark_ms)
            job_goodput_until(a, c->not_before_ms < at_ms ? c->not_before_ms : at_ms,
                              back_off(c));
        job_goodput_until(a, at_ms, BUCKET_QUEUED);
    } else if (in_another_queue(c)) {
        job_goodput_until(a, at_ms, BUCKET_QUEUED);
    } else {
        job_goodput_until(a, at_ms, c->attempt <= 1 && !c->generation ? BUCKET_INIT
                          : BUCKET_RESTART);
    }
}

/* Ranks whose end was never reported: charge the share of steps that were new.  Of steps that are
 * stored only: a replay must come to the same. */
static void goodput_lost(struct job_core *c, int64_t at_ms)
{
    int64_t from = c->gen_from > 0 ? c->gen_from : 0, done = c->stored_step - from;
    int64_t fresh = c->stored_step - (c->gen_best > from ? c->gen_best : from);
    job_goodput_guess(&c->goodput, at_ms, done > 0 && fresh > 0 ? (double)fresh / (double)done : 0);
}

/* ---- apply: one function per event that changes more than the state ---- */

static void take_clock(struct job_core *c, const json_t *body)
{
    const json_t *clock = json_object_get(body, "clock");
    c->boot = json_integer_value(json_array_get(clock, 0));
    c->clock = (struct clock_jump){.ahead_ms = json_integer_value(json_array_get(clock, 1)),
                                   .asleep_ms = json_integer_value(json_array_get(clock, 2))};
}

/* What the core knows of the spec. */
static void apply_edited(struct job_core *c, const struct core_event *e)
{
    const json_t *retry = json_object_get(e->body, "retry");
    const json_t *backoff = json_object_get(retry, "backoff_ms");
    c->priority = field_safe_int(e->body, "priority", 0);
    c->rules = (struct retry_rules){
        .max = field_safe_int(retry, "max", 10),
        .no_progress = field_safe_int(retry, "no_progress", 3),
        .same_line = field_safe_int(retry, "same_line", 0),
        .same_line_ms = field_safe_int(retry, "same_line_ms", 0),
        .backoff_min_ms = json_integer_value(json_array_get(backoff, 0)),
        .backoff_max_ms = json_integer_value(json_array_get(backoff, 1)),
    };
}

static void apply_submitted(struct job_core *c, const struct core_event *e)
{
    c->submitted_ms = c->goodput.mark_ms = e->at_ms;
    take_clock(c, e->body);
    c->held = body_is(e->body, "held");
    apply_edited(c, e);
}

static void apply_held(struct job_core *c, const struct core_event *e)
{
    c->held = e->kind == EVENT_HELD;
}

static void apply_placed(struct job_core *c, const struct core_event *e)
{
    c->attempt = e->attempt;
    c->generation = 0;
    c->live = true;
    c->agent_known = false;
    c->attempt_best = c->best;
    c->cpus = field_safe_int(e->body, "cpus", 0);
    c->gpus = field_safe_int(e->body, "gpus", 0);
    copy(c->nonce, sizeof(c->nonce), field_text(e->body, "nonce"));
    copy(c->node, sizeof(c->node), field_text(e->body, "node"));
    take_clock(c, e->body);
    if (!c->started_ms)
        c->started_ms = e->at_ms;
    if (c->attempt == 1)    /* a later attempt keeps the reason of the retry */
        snprintf(c->reason, sizeof(c->reason), "attempt 1 is starting on %s", c->node);
}

/* A pull may take long; the reason of a later start is that of the retry, as above. */
static void apply_pull_started(struct job_core *c, const struct core_event *e)
{
    const char *text = field_text(e->body, "text"), *end = strstr(text, ": ");
    if (c->attempt == 1 && c->generation == 0)
        snprintf(c->reason, sizeof(c->reason), "waiting for image %.*s on %s", (int)(end ? end - text : 100), text, c->node);
}

static void apply_fetch_started(struct job_core *c, const struct core_event *e)
{
    (void)e;
    if (c->attempt == 1 && c->generation == 0)
        snprintf(c->reason, sizeof(c->reason), "bringing its models to %s", c->node);
}

static void apply_fetch_progress(struct job_core *c, const struct core_event *e)
{
    if (c->attempt == 1 && c->generation == 0)
        snprintf(c->reason, sizeof(c->reason), "downloading its models to %s: %.80s", c->node, field_text(e->body, "text"));
}

static void apply_pull_done(struct job_core *c, const struct core_event *e)
{
    (void)e;
    if (c->attempt == 1 && c->generation == 0)
        snprintf(c->reason, sizeof(c->reason), "attempt 1 is starting on %s", c->node);
}

static void apply_agent_up(struct job_core *c, const struct core_event *e)
{
    (void)e;
    c->agent_known = true;
}

static void apply_generation_run(struct job_core *c, const struct core_event *e)
{
    /* If the previous generation's end was never reported, no stored event has its steps. */
    job_goodput_guess(&c->goodput, e->at_ms, 0);
    c->generation = field_safe_int(e->body, "generation", c->generation + 1);
    c->np = field_safe_int(e->body, "np", -1);
    job_goodput_ranks(&c->goodput, e->at_ms, c->np);
    c->gen_best = c->best;
    c->gen_from = field_safe_int(e->body, "resume_step", -1);
    if (c->generation == 1 && c->attempt == 1)
        c->reason[0] = 0;
}

static void apply_rank_started(struct job_core *c, const struct core_event *e)
{
    if (field_safe_int(e->body, "rank", 0) != 0)
        return;
    c->steps = field_safe_int(e->body, "steps", c->steps);
    c->gen_from = field_safe_int(e->body, "resume_step", c->gen_from);
    see_step(c, c->gen_from);
}

static void apply_generation_ended(struct job_core *c, const struct core_event *e)
{
    struct goodput spent;
    see_step(c, field_safe_int(e->body, "step", -1));
    const json_t *told = json_object_get(e->body, "goodput");
    if (!told)
        told = json_object_get(e->body, "spent");   /* of an older agent */
    if (goodput_parse(&spent, told) == 0)
        job_goodput_told(&c->goodput, e->at_ms, &spent);
    else if (failed(e->body))   /* an older agent does not send `spent` */
        goodput_lost(c, e->at_ms);
    else
        job_goodput_guess(&c->goodput, e->at_ms, 1);
    if (!failed(e->body))
        return;
    const char *fingerprint = field_text(e->body, "fingerprint");
    if (field_safe_int(e->body, "gained", 0) > 0) {
        c->failures = 0;
        c->fingerprint[0] = 0;
    } else {
        c->failures++;
    }
    c->same = strcmp(fingerprint, c->fingerprint) == 0 ? c->same + 1 : 1;
    copy(c->fingerprint, sizeof(c->fingerprint), fingerprint);
    copy(c->reason, sizeof(c->reason), field_text(e->body, "text"));
}

static void apply_reason(struct job_core *c, const struct core_event *e)
{
    copy(c->reason, sizeof(c->reason), field_text(e->body, "text"));
}

/* A run without its GPU is slow for as long as it lasts: status says so, too. */
static void apply_warning(struct job_core *c, const struct core_event *e)
{
    if (strncmp(field_text(e->body, "text"), PROGRESS_ON_CPU, strlen(PROGRESS_ON_CPU)) == 0)
        apply_reason(c, e);
}

/* Training is paused for a full disk, or continues. */
static void apply_no_room(struct job_core *c, const struct core_event *e)
{
    const bool over = body_is(e->body, "over");
    copy(c->reason, sizeof(c->reason), over ? "" : field_text(e->body, "text"));
    job_goodput_disk(&c->goodput, e->at_ms, !over);
}

/* Data is encoded before the first step, or all of it is. */
static void apply_encoding(struct job_core *c, const struct core_event *e)
{
    copy(c->reason, sizeof(c->reason), body_is(e->body, "over") ? "" : field_text(e->body, "text"));
}

static void apply_step(struct job_core *c, const struct core_event *e)
{
    c->step = field_safe_int(e->body, "step", c->step);
    c->steps = field_safe_int(e->body, "steps", c->steps);
}

static void apply_checkpoint(struct job_core *c, const struct core_event *e)
{
    int64_t step = field_safe_int(e->body, "step", -1);
    if (step > c->checkpoint)
        c->checkpoint = step;
    if (step > c->stored_step)
        c->stored_step = step;
    if (step > c->best)
        c->best = step;
}

static void apply_attempt_over(struct job_core *c, const struct core_event *e)
{
    see_step(c, field_safe_int(e->body, "step", -1));
    goodput_lost(c, e->at_ms);
    c->live = false;
    c->cpus = 0;
    c->gpus = 0;
    if (e->kind == EVENT_ATTEMPT_ENDED) {
        c->failures = field_safe_int(e->body, "failures_without_progress", c->failures);
        c->same = field_safe_int(e->body, "same_fingerprint", c->same);
        if (field_text(e->body, "fingerprint")[0])
            copy(c->fingerprint, sizeof(c->fingerprint), field_text(e->body, "fingerprint"));
    } else if (c->best > c->attempt_best) {
        c->failures = 0;
        c->same = 0;
        c->fingerprint[0] = 0;
    } else {
        const bool full = strcmp(field_text(e->body, "cause"), DISK_FULL) == 0;
        const char *name = full ? DISK_FULL ":agent" : "agent_lost";
        c->same = strcmp(c->fingerprint, name) == 0 ? c->same + 1 : 1;
        c->failures += !full;
        copy(c->fingerprint, sizeof(c->fingerprint), name);
    }
}

static void apply_stop_requested(struct job_core *c, const struct core_event *e)
{
    c->stop_limit = body_is(e->body, "limit");
    c->stop_now = c->stop_now || body_is(e->body, "now");
    copy(c->reason, sizeof(c->reason), field_text(e->body, "reason"));
}

static void apply_retry(struct job_core *c, const struct core_event *e)
{
    c->not_before_ms = field_safe_int(e->body, "not_before_ms", 0);
    c->backoff_ms = field_safe_int(e->body, "delay_ms", c->rules.backoff_max_ms);
    copy(c->reason, sizeof(c->reason), field_text(e->body, "text"));
}

static void shift(int64_t *at_ms, int64_t by_ms)
{
    if (*at_ms)
        *at_ms += by_ms;
}

/* Its times, as the clock that was set would have told them. */
static void apply_clock(struct job_core *c, const struct core_event *e)
{
    const int64_t by_ms = field_safe_int(e->body, "jump_ms", 0);
    shift(&c->started_ms, by_ms);
    shift(&c->not_before_ms, by_ms);
    shift(&c->goodput.mark_ms, by_ms);
    shift(&c->goodput.ranks_since_ms, by_ms);
    shift(&c->goodput.disk_since_ms, by_ms);
    c->jumped_ms += by_ms;
    take_clock(c, e->body);
}

static void apply_rebuilt(struct job_core *c, const struct core_event *e)
{
    (void)e;
    c->rebuilt = c->live;
}

static void apply_done(struct job_core *c, const struct core_event *e)
{
    enum job_result result = RESULT_FAILED;
    job_result_parse(&result, field_text(e->body, "result"));
    c->result = result;
    c->exit_code = (int)field_safe_int(e->body, "exit_code", 1);
    c->ended_ms = e->at_ms;
    job_goodput_close(&c->goodput);
    c->held = false;
    copy(c->reason, sizeof(c->reason), field_text(e->body, "reason"));
}

enum { NO_ARROW = -1 };

#define ROW(id, name, arrow, apply, text, flags) [EVENT_##id] = { arrow, apply },
static const struct {
    int arrow;
    void (*apply)(struct job_core *c, const struct core_event *e);      /* NULL: changes nothing */
} kinds[EVENT_KINDS] = { EVENTS(ROW) };

/* Changes the job and its state; a stop keeps its reason, not that of ranks that die meanwhile. */
static int change(struct job_core *c, const struct core_event *e, enum job_effect *effect,
                  struct err *err)
{
    const int arrow = e->kind == EVENT_GENERATION_ENDED && !failed(e->body) ? NO_ARROW
                      : kinds[e->kind].arrow;
    struct job_step step = { c->state, DO_NOTHING };
    char reason[CORE_REASON];
    if (arrow != NO_ARROW && job_fsm_step(&step, c->state, (enum job_fsm_event)arrow, err) < 0)
        return -1;
    const bool stopping = c->state == JOB_STOPPING && e->from_agent;
    copy(reason, sizeof(reason), c->reason);
    kinds[e->kind].apply(c, e);
    if (stopping)
        copy(c->reason, sizeof(c->reason), reason);
    c->state = step.to;
    if (step.effect != DO_NOTHING)
        *effect = step.effect;
    return 0;
}

static int apply(struct job_core *c, const struct core_event *e, enum job_effect *effect,
                 struct err *err)
{
    if (c->state == JOB_DONE)
        return err_set(err, ERR_CONFLICT, "job %lld is done (%s)", (long long)c->id,
                       job_result_name(c->result));
    if (e->from_agent && (!c->live || e->attempt != c->attempt))
        return err_set(err, ERR_CONFLICT, "attempt %lld of job %lld is over",
                       (long long)e->attempt, (long long)c->id);
    c->rebuilt = c->rebuilt && !e->from_agent;
    /* While an attempt lives, time is the agent's clock: its events may arrive late. */
    if (e->keep && e->kind != EVENT_CLOCK &&
        (!c->live || e->from_agent || in_another_queue(c) || e->kind == EVENT_AGENT_LOST))
        goodput_for(c, e->at_ms);
    if (!kinds[e->kind].apply)
        return 0;
    if (event_kind_is(e->kind, EVENT_IS_AGENTS) != e->from_agent)
        return err_set(err, ERR_CONFLICT, "event '%s' cannot come from %s", e->name,
                       e->from_agent ? "an agent" : "the controller");
    return change(c, e, effect, err);
}

int job_core_replay(struct job_core *core, const struct core_event *event, struct err *err)
{
    struct job_core next = *core;
    enum job_effect effect = DO_NOTHING;
    if (apply(&next, event, &effect, err) < 0)
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
    return json_pack("[I, I, I]", (json_int_t)boot, (json_int_t)clock->ahead_ms, (json_int_t)clock->asleep_ms);
}

void job_core_spent(struct goodput *out, const struct job_core *core, int64_t now_ms)
{
    struct job_core c = *core;
    if (c.state != JOB_DONE) {
        goodput_for(&c, now_ms);
        job_goodput_guess(&c.goodput, now_ms, c.step > c.gen_best || c.gen_from >= c.gen_best);
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
    return apply(next, e, &out->effect, err);
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
               json_pack("{s:s, s:s, s:i}", "result", job_result_name(result), "reason", reason,
                         "exit_code", exit_code), err);
}

/* The attempt is over after a stop request. */
static int end_as_asked(struct core_output *out, struct job_core *next,
                        const struct core_input *in, struct err *err)
{
    char reason[CORE_REASON];
    copy(reason, sizeof(reason), next->reason);
    if (next->stop_limit)
        return add_done(out, next, in, RESULT_FAILED, 1, reason, err);
    return add_done(out, next, in, RESULT_CANCELLED, 3, reason, err);
}

static int again_or_not(struct core_output *out, struct job_core *next,
                        const struct core_input *in, const struct retry_case *c,
                        struct err *err)
{
    struct retry_verdict v;
    retry_decide(&v, &next->rules, c);
    if (!v.again)
        return add_done(out, next, in, RESULT_FAILED, v.exit_code, v.text, err);
    return add(out, next, in, EVENT_RETRY,
               json_pack("{s:s, s:I, s:I}", "text", v.text, "delay_ms", (json_int_t)v.delay_ms,
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
        .failures = next->failures, .same = next->same, .step = next->step,
        .random = in->random,
    };
    return again_or_not(out, next, in, &c, err);
}

static int decide_agent_lost(struct core_output *out, struct job_core *next,
                             const struct core_input *in, struct err *err)
{
    const bool full = in->event && strcmp(in->event, DISK_FULL) == 0;
    if (!next->live || in->attempt != next->attempt)
        return err_set(err, ERR_CONFLICT, "attempt %lld of job %lld is over",
                       (long long)in->attempt, (long long)next->id);
    if (add(out, next, in, EVENT_AGENT_LOST,
            json_pack("{s:s, s:o, s:s*}", "text", in->text, "step",
                      next->step >= 0 ? json_integer(next->step) : json_null(), "cause", full ? DISK_FULL : NULL),
            err) < 0)
        return -1;
    if (next->state == JOB_STOPPING)
        return end_as_asked(out, next, in, err);
    const struct retry_case c = { .cause = in->event ? in->event : "agent_lost", .text = in->text,
                                  .helps = !in->event || full,
                                  .failures = next->failures, .same = next->same,
                                  .step = next->step, .random = in->random };
    return again_or_not(out, next, in, &c, err);
}

static int decide_stop(struct core_output *out, struct job_core *next,
                       const struct core_input *in, struct err *err)
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
    return err_set(err, ERR_CONFLICT, "attempt %lld of job %lld is over", (long long)in->attempt,
                   (long long)c->id);
}

static int decide_agent_up(struct core_output *out, struct job_core *next,
                           const struct core_input *in, struct err *err)
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

static int decide_hold(struct core_output *out, struct job_core *next,
                       const struct core_input *in, struct err *err)
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

static int decide(struct core_output *out, struct job_core *next, const struct core_input *in,
                  struct err *err)
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
    case CORE_REBUILT:
        return add_input(out, next, in, EVENT_REBUILT, err);
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

int job_core_step(struct job_core *core, const struct core_input *in, struct core_output *out,
                  struct err *err)
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
