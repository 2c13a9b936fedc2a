/* SPDX-License-Identifier: Apache-2.0 */
/* job_notice.c - see job_notice.h */
#include "controller/job/job_notice.h"

#include <stdlib.h>
#include <string.h>

#include "agent/os/log.h"
#include "controller/base/daemon.h"
#include "controller/job/job.h"
#include "controller/notify/notice.h"
#include "controller/notify/notify_times.h"
#include "controller/spec/config.h"
#include "controller/spec/notify_target.h"
#include "db/jobs.h"
#include "db/notices.h"
#include "engine/base/err.h"
#include "engine/base/field.h"

/* The news in the events of one input; at most one per event. */
struct found {
    struct notice_news news[CORE_EVENTS + 1];
    int                n;
};

static void find(struct found *f, const struct job *job, const struct core_event *e, enum notice_event event,
                 const char *reason)
{
    f->news[f->n++] = (struct notice_news){ .event = event, .ended = e->kind == EVENT_DONE, .at_ms = e->at_ms,
                                            .name = job->spec.name, .reason = reason };
}

static enum notice_event event_of_end(const struct core_event *e)
{
    const char *result = field_text(e->body, "result");
    return strcmp(result, "succeeded") == 0   ? NOTICE_DONE
           : strcmp(result, "cancelled") == 0 ? NOTICE_NONE
                                              : NOTICE_FAILED;
}

static void look(struct found *f, const struct job *job, const struct core_event *e)
{
    if (e->kind == EVENT_DONE)
        find(f, job, e, event_of_end(e), field_text(e->body, "reason"));
    else if (e->kind == EVENT_HANG)
        find(f, job, e, NOTICE_HUNG, field_text(e->body, "text"));
    else if (e->kind == EVENT_RETRY)
        find(f, job, e, NOTICE_RECOVERING, field_text(e->body, "text"));
    else if (e->kind == EVENT_RESTART_SCHEDULED)
        find(f, job, e, NOTICE_RECOVERING, job->core.reason);
}

/* News if the next failure without progress would be the last one. */
static void look_at_budget(struct found *f, const struct job *job, const struct job_core *was,
                           const struct core_output *out)
{
    const struct job_core *c = &job->core;
    if (c->rules.max > 0 && c->failures >= c->rules.max && was->failures < c->rules.max && c->state != JOB_DONE)
        find(f, job, &out->events[out->count - 1], NOTICE_BUDGET,
             "no retries are left (retry.max): the next failure without progress ends the job");
}

static bool has(const json_t *list, const char *word)
{
    size_t i;
    const json_t *one;
    json_array_foreach (list, i, one)
        if (json_is_string(one) && strcmp(json_string_value(one), word) == 0)
            return true;
    return false;
}

/* A failure at max_duration also counts as the event `budget`. */
static bool is_wanted(struct notice_news *news, const struct job *job, const json_t *on)
{
    if (has(on, notice_event_name(news->event)))
        return true;
    if (news->event != NOTICE_FAILED || !job->core.stop_limit || !has(on, "budget"))
        return false;
    news->event = NOTICE_BUDGET;
    return true;
}

static int tell(struct job *job, struct notice_news news, const char *target, const json_t *on, struct err *err)
{
    struct daemon *d = job->daemon;
    struct notice_row row;
    if (notices_get(&row, d->store, job->core.id, target, err) < 0)
        return -1;
    const struct notice_times times = notify_times();
    news.wanted = is_wanted(&news, job, on);
    switch (notice_add(&row, &news, &times)) {
    case NOTICE_SAME:
        return 0;
    case NOTICE_REMOVE:
        return notices_remove(d->store, row.job, target, err);
    case NOTICE_PUT:
        d->notices = true;
        return notices_put(d->store, &row, err);
    }
    return 0;
}

static int tell_all(struct job *job, const struct found *f, const json_t *targets, const json_t *wishes,
                    struct err *err)
{
    const json_t *to = json_object_get(wishes, "to"), *own = json_object_get(wishes, "on"), *one;
    size_t i;
    json_array_foreach (targets, i, one)
        for (int k = 0; k < f->n && (!json_is_array(to) || has(to, field_text(one, "name"))); k++)
            if (tell(job, f->news[k], field_text(one, "name"), json_is_array(own) ? own : json_object_get(one, "on"),
                     err) < 0)
                return -1;
    return 0;
}

/* `notify` of its spec, a new reference, or NULL. */
static json_t *wishes_of(const struct job *job)
{
    char *yaml = NULL, *canonical = NULL;
    json_t *spec = NULL, *wishes = NULL;
    if (jobs_spec(&yaml, &canonical, job->daemon->store, job->core.id, NULL) == 0)
        spec = json_loads(canonical, 0, NULL);
    wishes = json_incref(json_object_get(spec, "notify"));
    json_decref(spec);
    free(yaml);
    free(canonical);
    return wishes;
}

int job_notice_note(struct job *job, const struct job_core *was, const struct core_output *out, struct err *err)
{
    struct found f = { .n = 0 };
    struct config config;
    struct err why = { .code = ERR_NONE };
    if (job->member)      /* its sweep reports */
        return 0;
    for (int i = 0; i < out->count; i++)
        look(&f, job, &out->events[i]);
    if (out->count > 0)
        look_at_budget(&f, job, was, out);
    if (f.n == 0)
        return 0;
    if (config_load(&config, &why) < 0) {
        log_warn(NULL, "no message about job %lld was sent: %s", (long long)job->core.id, why.text);
        return 0;
    }
    json_t *wishes = json_array_size(config.notify) > 0 ? wishes_of(job) : NULL;
    const int rc = tell_all(job, &f, config.notify, wishes, err);
    json_decref(wishes);
    config_fini(&config);
    return rc;
}
