/* SPDX-License-Identifier: Apache-2.0 */
/* job_apply.c - see job_apply.h */
#include "controller/job/job_apply.h"

#include <stdlib.h>

#include "agent/core/redact.h"
#include "agent/os/log.h"
#include "controller/base/daemon.h"
#include "controller/job/active_jobs.h"
#include "controller/job/commit_group.h"
#include "controller/job/job.h"
#include "controller/job/job_store.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"

/* From here on durations are counted on clocks that cannot be set. */
static void start_clocks(struct job *job, const struct core_output *out)
{
    for (int i = 0; i < out->count; i++)
        if (out->events[i].kind == EVENT_RETRY)
            job->times.ready_ms = clock_ms() + job->core.backoff_ms;
    if (job->core.started_ms && !job->times.limit_ms)
        job->times.limit_ms = clock_boot_ms() + job->spec.max_duration_ms;
}

/* Text and body from an agent or its launcher without secrets, since they may quote ranks' output. The caller releases
 * them. */
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

/* Writes the results into the group. */
static int write_results(struct job *job, const struct job_past *was, const struct core_output *out,
                         const struct event_source *told, const struct job_edit *edit, struct err *err)
{
    if (commit_group_keep(job, was, err) < 0)
        return -1;
    if ((edit ? job_store_edit(job, &was->core, out, edit->yaml, edit->canonical, err)
              : job_store_write(job, &was->core, out, told, err)) < 0)
        return -1;
    start_clocks(job, out);
    commit_group_add(job, out, told);
    return 0;
}

/* What may wait for the end of the turn: events that only need to be acknowledged. */
static bool may_wait(const struct core_output *out, const struct event_source *told)
{
    return told && out->count > 0 && out->effect == DO_NOTHING;
}

/* Decides and stores. On failure nothing changes. *waits: the rest follows at the end of the turn; NULL: at once. */
static int apply_clean(struct job *job, const struct core_input *in, const struct event_source *told,
                       const struct job_edit *edit, enum job_effect *effect, bool *waits, struct err *err)
{
    const struct job_past was = JOB_PAST(job);
    struct core_output out = { 0 };
    if (job_core_step(&job->core, in, &out, err) < 0)
        return -1;
    for (int i = 0; i < out.count; i++)
        job_note(job, out.events[i].kind, out.events[i].body, out.events[i].at_ms);
    int rc = 0;
    if (out.count > 0 && (rc = write_results(job, &was, &out, told, edit, err)) < 0) {
        job_take_back(job, &was);
        job->daemon->store_state.errnum = err->errnum;
    }
    if (rc == 0 && job->daemon->active_jobs->noted)
        job->daemon->active_jobs->noted(job, &out);
    if (waits)
        *waits = may_wait(&out, told);
    if (rc == 0 && (!waits || !*waits))
        rc = commit_group_flush(job->daemon, told ? job : NULL, err);
    *effect = out.effect;
    core_output_fini(&out);
    return rc;
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
    json_t *body = json_make("{s:s, s:I, s:I, s:o}", "text", text, "jump_ms", (json_int_t)change.jump_ms,
                             "suspended_ms", (json_int_t)change.suspended_ms, "clock",
                             job_core_clock(job->daemon->machine.boot, &clock));
    const struct core_input in = {.kind = CORE_CLOCK, .at_ms = daemon_now_ms(), .body = body};
    int rc = body ? apply_clean(job, &in, NULL, NULL, &effect, NULL, err) : err_set(err, ERR_MEMORY, "out of memory");
    json_decref(body);
    if (rc < 0)
        return -1;
    job->times.clock = clock;
    job->daemon->active_jobs->applied(job, NULL, effect);
    return 0;
}

int job_apply(struct job *job, const struct core_input *in, const struct event_source *told, struct err *err)
{
    if (job_apply_clock(job, err) < 0)
        return -1;
    struct core_input clean = *in;
    json_t *body = NULL;
    char *text = NULL;
    enum job_effect effect = DO_NOTHING;
    bool waits = false;
    int rc = redact_input(&clean, &body, &text, job, err);
    if (rc == 0)
        rc = apply_clean(job, &clean, told, NULL, &effect, &waits, err);
    if (rc == 0 && !waits)
        job->daemon->active_jobs->applied(job, told, effect);
    json_decref(body);
    free(text);
    return rc;
}

int job_apply_edit(struct job *job, const struct job_edit *edit, struct err *err)
{
    const struct core_input in = {.kind = CORE_EDIT, .at_ms = daemon_now_ms(), .body = edit->body};
    enum job_effect effect = DO_NOTHING;
    if (job_apply_clock(job, err) < 0)
        return -1;
    job_exchange_spec(job, edit->job);
    if (apply_clean(job, &in, NULL, edit, &effect, NULL, err) < 0) {
        job_exchange_spec(job, edit->job);
        return -1;
    }
    job->daemon->active_jobs->applied(job, NULL, effect);
    return 0;
}
