/* SPDX-License-Identifier: Apache-2.0 */
/* sweeps.c - see sweeps.h */
#include "controller/lifecycle/sweeps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/os/log.h"
#include "controller/base/daemon.h"
#include "controller/base/diagnostics.h"
#include "controller/http/server.h"
#include "controller/job/active_jobs.h"
#include "controller/job/job.h"
#include "controller/job/job_apply.h"
#include "controller/job/job_env.h"
#include "controller/job/job_store.h"
#include "controller/job/sweep.h"
#include "controller/lifecycle/submission.h"
#include "controller/lifecycle/submit_batch.h"
#include "controller/nodes/fleet.h"
#include "controller/spec/canonical.h"
#include "controller/spec/sweep_points.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"

/* ---- the next member ---- */

/* The member's spec, of a sweep that is stored, or about to be. */
static json_t *plain_spec(const json_t *spec, int index, struct err *err)
{
    json_t *out = sweep_points_member(spec, index);
    if (!out) {
        err_set(err, ERR_MEMORY, "out of memory for a member");
        return NULL;
    }
    json_object_del(json_object_get(out, "checkpoint"), "origin");
    json_object_set_new(out, "after", json_array());    /* the sweep has waited for them */
    return out;
}

/* Checks a member like any spec, because a client may make canonical specs itself. */
static int check_member(json_t **spec, struct err *err)
{
    struct diagnostics found;
    json_t *checked, *checkpoint = json_object_get(*spec, "checkpoint");
    json_t *lineage = json_incref(json_object_get(checkpoint, "lineage"));
    json_object_del(checkpoint, "lineage");     /* given by the daemon, not by a client */
    const int rc = canonical_check(&checked, *spec, false, &found, err);
    if (rc == 0) {
        json_decref(*spec);
        *spec = checked;
        json_object_set(json_object_get(checked, "checkpoint"), "lineage", lineage);
    }
    json_decref(lineage);
    return rc;
}

int sweeps_check(const json_t *spec, struct err *err)
{
    struct index_list list;
    if (!sweep_points_is(spec))
        return 0;
    if (sweep_points_indices(&list, spec, err) < 0)
        return -1;
    json_t *member = plain_spec(spec, index_list_next(&list, -1), err);
    const int rc = member ? check_member(&member, err) : -1;
    json_decref(member);
    return rc;
}

/* A retried sweep continues with its members' own specs, and so with their checkpoints. */
static json_t *member_spec(struct job *job, int index, int64_t *retry_of, struct err *err)
{
    const struct sweep *s = job->sweep;
    *retry_of = 0;
    if (job->retry_of > 0 && jobs_members_find(retry_of, job->daemon->store, job->retry_of, index, err) > 0)
        return job_store_spec(job->daemon->store, *retry_of, err);
    json_t *spec = plain_spec(s->spec, index, err);
    if (spec && check_member(&spec, err) == 0)
        return spec;
    json_decref(spec);
    return NULL;
}

static int store_member(int64_t *id, struct job *job, int index, struct err *err)
{
    struct submission o = { .sweep = job->core.id, .sweep_index = index };
    char *yaml = NULL;
    int rc = -1;
    o.point = sweep_points_at(job->sweep->spec, index);
    o.spec = o.point ? member_spec(job, index, &o.retry_of, err) : NULL;
    job_env_recall(job);
    o.secrets = job->secrets;
    if (o.spec && canonical_text(&yaml, o.spec, err) == 0) {
        o.yaml = yaml;
        rc = submission_place(id, job->daemon, &o, err);
    }
    json_decref(o.point);
    json_decref(o.spec);
    free(yaml);
    return rc;
}

struct job *sweeps_member(struct job *job, struct err *err)
{
    struct daemon *d = job->daemon;
    const int index = sweep_next(job->sweep);
    int64_t id;
    if (store_member(&id, job, index, err) < 0) {
        err_prefix(err, "member %d: ", index);
        return NULL;
    }
    sweep_started(job->sweep, index);   /* before the flush, which files both in the queue */
    submit_batch_flush(d);
    struct job *member = active_jobs_find(d->active_jobs, id);
    if (!member) {
        sweep_withdraw(job->sweep, index);
        *err = d->submit_batch->err;
        return NULL;
    }
    if (job->sweep->in_waves && member->member) {
        member->member->wave = job->sweep->wave;
        member->member->size = (int)job->sweep->size;
    }
    struct err ignored = { .code = ERR_NONE };
    job_aim(job, &ignored);
    fleet_note(job);
    server_wake(d->server, job->core.id);
    return member;
}

/* ---- ends ---- */

static int settle(struct job *job, struct err *err)
{
    char text[200];
    const enum job_result result = sweep_result(job->sweep);
    sweep_text(text, sizeof(text), job->sweep);
    json_t *body = json_make("{s:s, s:s, s:i}", "result", job_result_name(result), "reason", text, "exit_code",
                             result == RESULT_SUCCEEDED ? 0 : result == RESULT_CANCELLED ? 3 : 1);
    const struct core_input in = { .kind = CORE_SETTLE, .at_ms = daemon_now_ms(), .body = body };
    const int rc = body ? job_apply(job, &in, NULL, err) : err_set(err, ERR_MEMORY, "out of memory");
    json_decref(body);
    return rc;
}

int sweeps_settle(struct job *job, struct err *err)
{
    return settle(job, err);
}

void sweeps_member_done(struct daemon *d, int64_t sweep, enum job_result result)
{
    struct job *job = sweep > 0 ? active_jobs_find(d->active_jobs, sweep) : NULL;
    struct err err = { .code = ERR_NONE };
    if (!job || !job->sweep)
        return;
    sweep_ended(job->sweep, result);
    server_wake(d->server, sweep);
    if (sweep_is_over(job->sweep) && settle(job, &err) == 0)
        return;
    if (err.code)
        log_error(NULL, "job %lld: %s; trying again", (long long)sweep, err.text);
    fleet_note(job);
    fleet_dirty(d);
}

static void stop(struct job *job, const char *reason, bool now)
{
    struct err err = { .code = ERR_NONE };
    json_t *body = json_make("{s:s, s:b, s:b}", "reason", reason, "limit", 0, "now", (int)now);
    const struct core_input in = { .kind = CORE_STOP, .at_ms = daemon_now_ms(), .body = body };
    const int64_t id = job->core.id;
    if (body && (now || job->core.state != JOB_STOPPING) && job_apply(job, &in, NULL, &err) < 0)
        log_error(NULL, "job %lld: %s; jobctl cancel %lld stops it", (long long)id, err.text, (long long)id);
    json_decref(body);
}

void sweeps_stop_members(struct daemon *d, int64_t sweep, const char *reason, bool now)
{
    char text[CORE_REASON];
    snprintf(text, sizeof(text), "%s", reason);
    for (size_t i = d->active_jobs->count; i-- > 0;) {  /* an ended job leaves the list; those before it stay */
        if (i < d->active_jobs->count && job_sweep_of(d->active_jobs->jobs[i]) == sweep)
            stop(d->active_jobs->jobs[i], text, now);
    }
}

/* ---- the start of the daemon ---- */

static void recall(struct job *job)
{
    struct jobs_members m;
    struct err err = { .code = ERR_NONE };
    struct sweep *s = job->sweep;
    if (jobs_members_count(&m, job->daemon->store, job->core.id, &err) < 0) {
        log_error(NULL, "job %lld: %s", (long long)job->core.id, err.text);
        s->max_parallel = 0;    /* better to lose one than to start one twice */
        return;
    }
    s->last = (int)m.last;
    s->done[RESULT_SUCCEEDED] = m.succeeded;
    s->done[RESULT_FAILED] = m.failed;
    s->done[RESULT_CANCELLED] = m.cancelled;
    s->live = m.started - m.succeeded - m.failed - m.cancelled;
    job_aim(job, &err);
}

/* A sweep that is done may have members that the daemon could not stop before it died. */
static void stop_left_over(struct daemon *d)
{
    for (size_t i = d->active_jobs->count; i-- > 0;) {
        struct job *job = i < d->active_jobs->count ? d->active_jobs->jobs[i] : NULL;
        if (job && job->member && !active_jobs_find(d->active_jobs, job->member->sweep))
            stop(job, "its sweep was cancelled", false);
    }
}

void sweeps_recall(struct daemon *d)
{
    struct err err = { .code = ERR_NONE };
    for (size_t i = d->active_jobs->count; i-- > 0;) {
        struct job *job = i < d->active_jobs->count ? d->active_jobs->jobs[i] : NULL;
        if (!job || !job->sweep)
            continue;
        recall(job);
        if (sweep_is_over(job->sweep) && settle(job, &err) < 0)
            log_error(NULL, "%s", err.text);
    }
    stop_left_over(d);
}

/* ---- to show ---- */

json_t *sweeps_json(struct daemon *d, const struct job_row *row)
{
    struct jobs_members m;
    if (row->members <= 0 || jobs_members_count(&m, d->store, row->id, NULL) < 0)
        return json_null();
    return json_make("{s:I, s:I, s:I, s:I, s:I, s:I}", "count", (json_int_t)row->members, "running",
                     (json_int_t)(m.started - m.succeeded - m.failed - m.cancelled), "succeeded",
                     (json_int_t)m.succeeded, "failed", (json_int_t)m.failed, "cancelled", (json_int_t)m.cancelled,
                     "not_started", (json_int_t)(row->members - m.started));
}

struct unsuccessful {
    struct index_list *all, there;      /* all: without those that succeeded; there: those with a row */
    int                last;            /* the largest index that has a row */
    int64_t            live;
};

static void drop(struct index_list *list, int index)
{
    if (!index_list_has(list, index))
        return;
    list->bits[index / 64] &= ~(UINT64_C(1) << (index % 64));
    list->count--;
}

static int look(void *ctx, const struct job_row *row)
{
    struct unsuccessful *u = ctx;
    const int index = (int)row->sweep_index;
    if (!row->result[0])
        u->live = row->id;
    if (strcmp(row->result, "succeeded") == 0)
        drop(u->all, index);
    index_list_add(&u->there, index);
    u->last = index;
    return 0;
}

int sweeps_unsuccessful(struct index_list *list, struct daemon *d, const struct job_row *sweep, const json_t *spec,
                        struct err *err)
{
    struct unsuccessful u = { .all = list, .last = -1 };
    if (sweep_points_indices(list, spec, err) < 0 ||
        jobs_members_each(d->store, sweep->id, -1, INT64_MAX, look, &u, err) < 0)
        return -1;
    for (int i = index_list_next(list, -1); i >= 0 && i < u.last; i = index_list_next(list, i))
        if (!index_list_has(&u.there, i))
            drop(list, i);      /* members start in order, so it has started, and was removed since */
    if (u.live)
        return err_set(err, ERR_CONFLICT, "job %lld of sweep %lld is still stopping; try again when it is done",
                       (long long)u.live, (long long)sweep->id);
    if (list->count == 0)
        return err_set(err, ERR_CONFLICT, "all %lld members of sweep %lld have succeeded; there is nothing to retry",
                       (long long)sweep->members, (long long)sweep->id);
    return 0;
}
