/* SPDX-License-Identifier: Apache-2.0 */
/* job_apply.c - see job_apply.h */
#include "controller/job/job_apply.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/core/redact.h"
#include "agent/os/log.h"
#include "controller/base/daemon.h"
#include "controller/job/active_jobs.h"
#include "controller/job/job.h"
#include "controller/job/job_history.h"
#include "controller/job/job_store.h"
#include "engine/contract/clock.h"
#include "engine/contract/err.h"

static void log_change(const struct job *job, const struct job_core *was)
{
    const struct job_core *c = &job->core;
    char tag[48];
    if (c->state == was->state)
        return;
    snprintf(tag, sizeof(tag), "%lld.%lld", (long long)c->id, (long long)c->attempt);
    if (c->state == JOB_DONE)
        log_info(tag, "%s: %s", job_result_name(c->result), c->reason);
    else
        log_info(tag, "%s%s%s", job_state_name(c->state), c->reason[0] ? ": " : "", c->reason);
}

/* Durations count from here on clocks that nobody sets. */
static void start_clocks(struct job *job, const struct core_output *out)
{
    for (int i = 0; i < out->count; i++)
        if (out->events[i].kind == EVENT_RETRY)
            job->ready_ms = clock_ms() + job->core.backoff_ms;
    if (job->core.started_ms && !job->limit_ms)
        job->limit_ms = clock_boot_ms() + job->max_duration_ms;
}

/* What an agent or its launcher says may quote output of ranks: its text and body without secrets, to be
 * released by the caller. */
static int redact_input(struct core_input *in, json_t **body, char **text, const struct job *job, struct err *err)
{
    struct redact *known = redact_create();
    int rc = known ? redact_add_all(known, job->secrets) : -1;
    if (rc == 0 && in->kind == CORE_AGENT_EVENT && in->body &&
        !(in->body = *body = redact_event(known, in->body)))
        rc = -1;
    if (rc == 0 && in->text && !(in->text = *text = redact_text(known, in->text, NULL)))
        rc = -1;
    redact_destroy(known);
    return rc == 0 ? 0 : err_set(err, ERR_MEMORY, "out of memory for job %lld", (long long)job->core.id);
}

/* Keeps the history beside the job up to date. The store has it all, so a failure is told and tried again at
 * the next event. */
static void keep_history(struct job *job, const struct core_output *out)
{
    struct daemon *d = job->daemon;
    struct err err = { 0 };
    char tag[24];
    bool matters = false;
    for (int i = 0; i < out->count; i++)
        matters |= job_history_matters(out->events[i].kind);
    if (!matters || job_history_write(&job->history_seq, d->home, d->store, job->core.id, &err) == 0)
        return;
    snprintf(tag, sizeof(tag), "%lld", (long long)job->core.id);
    log_warn(tag, "%s", err.text);
}

static int store_result(struct job *job, const struct job_core *was, const struct core_output *out,
                        const struct event_source *told, const struct job_edit *edit, struct err *err)
{
    if (!edit)
        return job_store_write(job, was, out, told, err);
    job_exchange_spec(job, edit->job);
    if (job_store_edit(job, was, out, edit->yaml, edit->canonical, err) == 0)
        return 0;
    job_exchange_spec(job, edit->job);
    return -1;
}

/* Decides and stores. On failure nothing changes. */
static int apply_clean(struct job *job, const struct core_input *in, const struct event_source *told,
                       const struct job_edit *edit, enum job_effect *effect, struct err *err)
{
    const struct job_core was = job->core;
    const struct job_live_stats live_stats = job->live_stats;
    struct core_output out = { 0 };
    if (job_core_step(&job->core, in, &out, err) < 0)
        return -1;
    for (int i = 0; i < out.count; i++)
        job_note(job, out.events[i].kind, out.events[i].body, out.events[i].at_ms);
    if (out.count > 0 && store_result(job, &was, &out, told, edit, err) < 0) {
        job->core = was;
        job->live_stats = live_stats;
        core_output_fini(&out);
        return -1;
    }
    if (out.count > 0) {
        start_clocks(job, &out);
        keep_history(job, &out);
        if (out.events[0].keep)
            daemon_test_hook(job->daemon);
    }
    *effect = out.effect;
    core_output_fini(&out);
    log_change(job, &was);
    return 0;
}

int job_apply_clock(struct job *job, struct err *err)
{
    struct clock_change change;
    struct clock_jump clock;
    enum job_effect effect = DO_NOTHING;
    char text[400];
    if (!job_clock_look(job, &clock, &change))
        return 0;
    clock_jump_text(text, sizeof(text), &change);
    json_t *body = json_pack("{s:s, s:I, s:I, s:o}", "text", text, "jump_ms", (json_int_t)change.jump_ms,
                             "suspended_ms", (json_int_t)change.suspended_ms, "clock",
                             job_core_clock(job->daemon->boot, &clock));
    const struct core_input in = {.kind = CORE_CLOCK, .at_ms = daemon_now_ms(), .body = body};
    int rc = body ? apply_clean(job, &in, NULL, NULL, &effect, err) : err_set(err, ERR_MEMORY, "out of memory");
    json_decref(body);
    if (rc < 0)
        return -1;
    job->clock = clock;
    job->daemon->active_jobs->applied(job, NULL, effect);
    return 0;
}

int job_apply(struct job *job, const struct core_input *in, const struct event_source *told,
              struct err *err)
{
    if (job_apply_clock(job, err) < 0)
        return -1;
    struct core_input clean = *in;
    json_t *body = NULL;
    char *text = NULL;
    enum job_effect effect = DO_NOTHING;
    int rc = redact_input(&clean, &body, &text, job, err);
    if (rc == 0)
        rc = apply_clean(job, &clean, told, NULL, &effect, err);
    if (rc == 0)
        job->daemon->active_jobs->applied(job, told, effect);
    json_decref(body);
    free(text);
    return rc;
}

int job_apply_edit(struct job *job, const struct job_edit *edit, struct err *err)
{
    const struct core_input in = {.kind = CORE_EDIT, .at_ms = daemon_now_ms(), .body = edit->body};
    enum job_effect effect = DO_NOTHING;
    if (job_apply_clock(job, err) < 0 || apply_clean(job, &in, NULL, edit, &effect, err) < 0)
        return -1;
    job->daemon->active_jobs->applied(job, NULL, effect);
    return 0;
}
