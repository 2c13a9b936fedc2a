/* SPDX-License-Identifier: Apache-2.0 */
/* job_core_apply.c - what an event changes in a job: the only code that changes one, so a replay yields the same
 *
 * Pure: no clock, no I/O.
 */
#include <stdio.h>
#include <string.h>

#include "agent/core/cause.h"
#include "controller/job/job_core_internal.h"
#include "controller/job/job_core_json.h"
#include "engine/base/err.h"
#include "engine/base/field.h"


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

static bool cause_is_full(const json_t *body)
{
    return strcmp(field_text(body, "cause"), cause_name(CAUSE_DISK_FULL)) == 0;
}

/* After a failure; the wait for a full disk has a separate bucket. */
static enum bucket back_off(const struct job_core *c)
{
    return c->full ? BUCKET_DISK : BUCKET_RESTART;
}

int64_t job_core_disk_wait(const struct job_core *c)
{
    if (c->goodput.disk_since_ms)
        return c->goodput.disk_since_ms;
    return c->state == JOB_RECOVERING && !c->live && back_off(c) == BUCKET_DISK;
}

void job_core_charge(struct job_core *c, int64_t at_ms)
{
    struct job_goodput *a = &c->goodput;
    if (c->state == JOB_PENDING) {
        job_goodput_until(a, at_ms, c->held ? BUCKET_PAUSED : BUCKET_QUEUED);
    } else if (c->state == JOB_RECOVERING && !c->live) {
        if (c->not_before_ms > a->mark_ms)
            job_goodput_until(a, c->not_before_ms < at_ms ? c->not_before_ms : at_ms, back_off(c));
        job_goodput_until(a, at_ms, BUCKET_QUEUED);
    } else if (in_another_queue(c)) {
        job_goodput_until(a, at_ms, BUCKET_QUEUED);
    } else {
        job_goodput_until(a, at_ms, c->attempt <= 1 && !c->generation ? BUCKET_INIT
                          : BUCKET_RESTART);
    }
}

/* Ranks whose end was never reported: charge the share of steps that were new. Only stored steps count: a replay must
 * give the same result. */
static void goodput_lost(struct job_core *c, int64_t at_ms)
{
    int64_t from = c->gen_from > 0 ? c->gen_from : 0, done = c->stored_step - from;
    int64_t fresh = c->stored_step - (c->gen_best > from ? c->gen_best : from);
    job_goodput_guess(&c->goodput, at_ms, done > 0 && fresh > 0 ? (double)fresh / (double)done : 0);
}

/* When the ranks whose end this event reports began, if no stored event has their start (an agent without memory loses
 * events); otherwise the event's time. */
static int64_t missed_start(const struct job_core *c, const struct core_event *e, struct goodput *spent)
{
    const int64_t np = field_safe_int(e->body, "np", c->np);
    if (e->kind != EVENT_GENERATION_ENDED || field_safe_int(e->body, "generation", 0) <= c->generation || np <= 0 ||
        goodput_parse(spent, json_object_get(e->body, "goodput")) < 0)
        return e->at_ms;
    const int64_t began = e->at_ms - spent->rank_ms / np;
    return began >= c->goodput.mark_ms ? began : e->at_ms;     /* else that time is already charged */
}

/* ---- one function per event that changes more than the state ---- */

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
        .same_line = (int32_t)field_safe_int(retry, "same_line", 0),
        .same_line_ms = field_safe_int(retry, "same_line_ms", 0),
        .early_ms = (int32_t)field_safe_int(retry, "early_ms", 0),
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
    if (c->attempt == 1 && c->generation == 0)
        snprintf(c->reason, sizeof(c->reason), "waiting for image %.120s with %s on %s", field_text(e->body, "image"),
                 field_text(e->body, "runtime"), c->node);
}

static void apply_fetch_started(struct job_core *c, const struct core_event *e)
{
    (void)e;
    if (c->attempt == 1 && c->generation == 0)
        snprintf(c->reason, sizeof(c->reason), "copying its models to %s", c->node);
}

static void apply_fetch_progress(struct job_core *c, const struct core_event *e)
{
    if (c->attempt == 1 && c->generation == 0)
        snprintf(c->reason, sizeof(c->reason), "downloading its models to %s: %.80s", c->node,
                 field_text(e->body, "text"));
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

static void generation_run(struct job_core *c, const json_t *body, int64_t at_ms, int64_t np)
{
    /* If the previous generation's end was never reported, no stored event has its steps. */
    job_goodput_guess(&c->goodput, at_ms, 0);
    c->generation = field_safe_int(body, "generation", c->generation + 1);
    c->np = field_safe_int(body, "np", np);
    job_goodput_ranks(&c->goodput, at_ms, c->np);
    c->gen_best = c->best;
    c->gen_from = field_safe_int(body, "resume_step", -1);
}

static void apply_generation_run(struct job_core *c, const struct core_event *e)
{
    generation_run(c, e->body, e->at_ms, -1);
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
    const int64_t began = missed_start(c, e, &spent);
    if (began < e->at_ms)
        generation_run(c, e->body, began, c->np);
    see_step(c, field_safe_int(e->body, "step", -1));
    if (goodput_parse(&spent, json_object_get(e->body, "goodput")) == 0)
        job_goodput_told(&c->goodput, e->at_ms, &spent);
    else if (failed(e->body))
        goodput_lost(c, e->at_ms);
    else
        job_goodput_guess(&c->goodput, e->at_ms, 1);
    if (!failed(e->body))
        return;
    const char *fingerprint = field_text(e->body, "fingerprint");
    c->full = cause_is_full(e->body);
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

/* A run without its GPU stays slow to its end, so status shows it too. */
static void apply_warning(struct job_core *c, const struct core_event *e)
{
    if (body_is(e->body, "lasts"))
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

/* Its event names the highest step of all its generations; the last one may have ended at an earlier step. */
static void see_best(struct job_core *c, int64_t best)
{
    if (c->stored_step < 0)
        see_step(c, best);
    else if (best > c->best)
        c->best = best;
}

static void apply_attempt_over(struct job_core *c, const struct core_event *e)
{
    const int64_t step = field_safe_int(e->body, "step", -1);
    if (e->kind == EVENT_AGENT_LOST && step > c->stored_step)
        see_step(c, step); /* the newest of the generation that was lost with it */
    else
        see_best(c, step);
    goodput_lost(c, e->at_ms);
    c->full = cause_is_full(e->body);
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
        const char *cause = field_text(e->body, "cause");
        char name[CORE_FINGERPRINT];
        snprintf(name, sizeof(name), "%.100s%s", cause[0] ? cause : e->name, cause[0] ? ":agent" : "");
        c->same = strcmp(c->fingerprint, name) == 0 ? c->same + 1 : 1;
        c->failures += retry_counts(cause);
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

/* Its times, as the newly set clock would have shown them. */
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
    job_core_json_read(c, json_object_get(e->body, "state"), NULL);     /* takeover.c has checked it */
    c->rebuilt = c->live;
}

static void apply_done(struct job_core *c, const struct core_event *e)
{
    if (job_result_parse(&c->result, field_text(e->body, "result")) < 0 || c->result == RESULT_NONE)
        c->result = RESULT_FAILED;
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
static int change(struct job_core *c, const struct core_event *e, enum job_effect *effect, struct err *err)
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
    if (arrow != NO_ARROW)
        c->state = step.to;
    if (step.effect != DO_NOTHING)
        *effect = step.effect;
    return 0;
}

int job_core_apply(struct job_core *c, const struct core_event *e, enum job_effect *effect, struct err *err)
{
    struct goodput spent;
    if (c->state == JOB_DONE)
        return err_set(err, ERR_CONFLICT, "job %lld is done (%s)", (long long)c->id, job_result_name(c->result));
    if (e->from_agent && (!c->live || e->attempt != c->attempt))
        return err_set(err, ERR_CONFLICT, "attempt %lld of job %lld is over", (long long)e->attempt, (long long)c->id);
    c->rebuilt = c->rebuilt && !e->from_agent;
    /* While an attempt lives, time is the agent's clock: its events may arrive late. */
    if (e->keep && e->kind != EVENT_CLOCK &&
        (!c->live || e->from_agent || in_another_queue(c) || event_kind_is(e->kind, EVENT_IS_END)))
        job_core_charge(c, missed_start(c, e, &spent));
    if (!kinds[e->kind].apply)
        return 0;
    if (event_kind_is(e->kind, EVENT_IS_AGENTS) != e->from_agent)
        return err_set(err, ERR_CONFLICT, "event '%s' cannot come from %s", e->name,
                       e->from_agent ? "an agent" : "the controller");
    return change(c, e, effect, err);
}
