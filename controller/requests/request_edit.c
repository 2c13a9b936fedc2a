/* SPDX-License-Identifier: Apache-2.0 */
/* request_edit.c - GET /v1/jobs/JOB/spec and POST /edit: replaces the spec of a job that has not started */
#include "controller/requests/requests.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/base/daemon.h"
#include "controller/base/diagnostics.h"
#include "controller/requests/dependencies.h"
#include "controller/requests/job_json.h"
#include "controller/requests/request_job.h"
#include "controller/lifecycle/submission.h"
#include "controller/http/request.h"
#include "controller/job/job.h"
#include "controller/job/job_apply.h"
#include "controller/job/job_code.h"
#include "controller/job/job_store.h"
#include "controller/nodes/fleet.h"
#include "controller/spec/canonical.h"
#include "controller/spec/spec_keys.h"
#include "db/events.h"
#include "db/jobs.h"
#include "controller/spec/sweep_points.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

enum { RETRIES = 100 };

/* ---- how it was submitted ---- */

struct source {
    json_t *set, *base;         /* overrides; directory of relative paths, NULL: the workdir */
    int64_t retry_of;           /* the job whose text this is; 0: its own */
    bool    adopted;            /* no user wrote its text */
};

static int read_event(void *ctx, const struct event_row *row)
{
    struct source *from = ctx;
    const enum event_kind kind = event_kind_of(row->kind);
    if (kind != EVENT_SUBMITTED && kind != EVENT_EDITED)
        return 0;
    json_t *body = json_loads(row->body, 0, NULL);
    json_decref(from->set);
    from->set = json_incref(json_object_get(body, "set"));
    from->retry_of = field_int(body, "retry_of", 0);
    from->adopted |= json_object_get(body, "adopted") != NULL;
    if (kind == EVENT_SUBMITTED)
        from->base = json_incref(json_object_get(body, "base"));
    json_decref(body);
    return 0;
}

static void source_fini(struct source *from)
{
    json_decref(from->set);
    json_decref(from->base);
    *from = (struct source){ .set = NULL };
}

/* A job that retries another has the other's text but not its overrides: these are in the other job, unless it was
 * removed. */
static int source_of(struct source *from, struct daemon *d, int64_t id, struct err *err)
{
    *from = (struct source){ .retry_of = id };
    for (int i = 0; i < RETRIES && from->retry_of > 0; i++) {
        const int64_t of = from->retry_of;
        source_fini(from);
        if (events_each(d->store, of, 0, INT64_MAX, read_event, from, i == 0 ? err : NULL) < 0)
            return i == 0 ? -1 : 0;
    }
    return 0;
}

/* The job of the path, if it can be edited; NULL: answered. */
static struct job *job_to_edit(struct request *r)
{
    struct job *job = request_job_open(r);
    struct err err = { 0 };
    if (!job || (!job->sweep && job_core_can_edit(&job->core, &err) == 0))
        return job;
    if (job->sweep)
        err_set(&err, ERR_CONFLICT, "job %lld is a sweep, whose members may have started; cancel it and submit the "
                "changed spec", (long long)job->core.id);
    request_fail(r, &err, NULL);
    return NULL;
}

/* The text as submitted, of a job that can be edited or, as the start of a new job, of any job. */
static void answer_spec(struct request *r, int64_t id, bool any)
{
    struct daemon *d = request_daemon(r);
    struct err err = { 0 };
    struct source from = { .set = NULL };
    char *yaml = NULL, *canonical = NULL;
    json_t *spec = NULL, *row = NULL;
    if (source_of(&from, d, id, &err) < 0 || jobs_spec(&yaml, &canonical, d->store, id, &err) < 0 ||
        !(spec = job_store_spec(d->store, id, &err)) || !(row = job_json_of_id(d, id, &err)))
        request_fail(r, &err, NULL);
    else if (from.adopted && !any) {
        err_set(&err, ERR_CONFLICT, "job %lld continues another machine's job with that job's spec, so it cannot be "
                "edited", (long long)id);
        request_fail(r, &err, NULL);
    } else
        request_answer(r, 200, json_make("{s:O, s:s, s:O, s:O*, s:O}", "job", row, "yaml", yaml, "spec", spec, "set",
                                         from.set, "base",
                                         from.base ? from.base : json_object_get(spec, "workdir")));
    source_fini(&from);
    json_decref(spec);
    json_decref(row);
    free(yaml);
    free(canonical);
}

void request_spec(struct request *r)
{
    int64_t any;
    struct job_row row;
    const struct job *job;
    if (request_number(&any, r, "any", 0) < 0)
        return;
    if (any && request_job_row(&row, r) == 0)
        answer_spec(r, row.id, true);
    else if (!any && (job = job_to_edit(r)))
        answer_spec(r, job->core.id, false);
}

/* ---- another spec ---- */

static int check_same_text(const struct job *job, const json_t *body, struct err *err)
{
    char *yaml = NULL, *canonical = NULL;
    if (jobs_spec(&yaml, &canonical, job->daemon->store, job->core.id, err) < 0)
        return -1;
    const bool same = strcmp(yaml, field_text(body, "was")) == 0;
    free(yaml);
    free(canonical);
    return same ? 0 : err_set(err, ERR_CONFLICT, "the spec of job %lld was edited meanwhile; edit it again",
                              (long long)job->core.id);
}

/* What was taken from the submitter's machine belongs to the submitted spec, so these keys cannot change. */
static int check_kept(const json_t *spec, const json_t *stored, struct err *err)
{
    static const char *const kept[] = { "secrets", "env_from", "launch" };
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
        if (!json_equal(json_object_get(spec, kept[i]), json_object_get(stored, kept[i])))
            return err_set(err, ERR_USAGE, "%s: cannot be edited, because the job keeps the environment from its "
                           "submission; submit the changed spec as a new job", kept[i]);
    return 0;
}

/* What no text contains: the job's origin, and the checkpoints that a retry continues. */
static int keep_identity(json_t *spec, const json_t *stored, const struct job *job, struct err *err)
{
    static const char *const keys[] = { "origin", "lineage", "dir" };
    json_t *to = json_object_get(spec, "checkpoint");
    const json_t *from = json_object_get(stored, "checkpoint");
    struct job_row row;
    if (jobs_get(&row, job->daemon->store, job->core.id, err) < 0)
        return -1;
    const size_t n = row.retry_of > 0 && strcmp(field_text(to, "dir"), "auto") == 0 ? 3 : 2;
    for (size_t i = 0; i < n; i++)
        if (json_object_get(from, keys[i]))
            json_object_set(to, keys[i], json_object_get(from, keys[i]));
    return 0;
}

/* True if the key's values differ. Unlike json_equal(), a key absent from both is no difference. */
static bool differs(const json_t *a, const json_t *b, const char *key)
{
    const json_t *one = json_object_get(a, key), *other = json_object_get(b, key);
    return one != other && !json_equal(one, other);
}

static int check_code(const json_t *spec, const json_t *stored, const struct job *job, struct err *err)
{
    char dir[PATH_MAX];
    const char *key = differs(spec, stored, "snapshot") ? "snapshot" : NULL;
    if (!key && differs(spec, stored, "workdir") && job_code_dir(dir, sizeof(dir), job->daemon, job->core.id))
        key = "workdir";
    return !key ? 0 : err_set(err, ERR_USAGE, "%s: cannot be edited, because the job keeps the code from its "
                              "submission; submit the changed spec as a new job", key);
}

static int complete(json_t *spec, const json_t *stored, struct job *job, struct err *err)
{
    struct daemon *d = job->daemon;
    if (sweep_points_is(spec) && !job->sweep)
        return err_set(err, ERR_USAGE, "%s: a job cannot become several; submit the changed spec as a new job",
                       json_object_get(spec, "sweep") ? "sweep" : "array");
    if (check_kept(spec, stored, err) < 0 || check_code(spec, stored, job, err) < 0)
        return -1;
    if (keep_identity(spec, stored, job, err) < 0 || dependencies_resolve(spec, d, job->core.id, err) < 0)
        return -1;
    return submission_place_checkpoints(spec, d, job->core.id, err);
}

/* Takes `keys`. */
static json_t *edited_body(const json_t *spec, const json_t *set, json_t *keys)
{
    return json_make("{s:I, s:o, s:o, s:o*}", "priority", json_integer_value(json_object_get(spec, "priority")),
                     "retry", submission_retry(spec), "keys", keys, "set", submission_overrides(set));
}

static int store(struct job *job, const json_t *spec, const json_t *body, json_t *event, struct err *err)
{
    json_t *plan = NULL;
    char *canonical = json_dumps(spec, JSON_COMPACT);
    struct job *made = job_create(job->daemon, job->core.id, spec, err);
    const struct job_edit edit = { .job = made, .yaml = field_text(body, "spec"), .canonical = canonical,
                                   .body = event };
    int rc = -1;
    if (!canonical || !event)
        err_set(err, ERR_MEMORY, "out of memory for a job");
    else if (made && submission_fits(&plan, made, spec, err) == 0) {
        fleet_take_out(job);
        rc = job_apply_edit(job, &edit, err);
        fleet_note(job);
    }
    job_destroy(made);
    json_decref(plan);
    free(canonical);
    return rc;
}

void request_edit(struct request *r)
{
    const json_t *body = request_body(r);
    struct diagnostics found = { .count = 0 };
    struct err err = { 0 };
    json_t *spec = NULL, *stored = NULL, *event = NULL;
    struct job *job = job_to_edit(r);
    if (!job)
        return;
    const int64_t id = job->core.id;
    if (check_same_text(job, body, &err) < 0 || !(stored = job_store_spec(job->daemon->store, id, &err)) ||
        canonical_check(&spec, json_object_get(body, "canonical"), false, &found, &err) < 0 ||
        complete(spec, stored, job, &err) < 0)
        goto fail;
    json_t *keys = spec_keys_differ(stored, spec);
    event = edited_body(spec, json_object_get(body, "set"), json_incref(keys));
    if (store(job, spec, body, event, &err) == 0)
        request_answer(r, 200, json_make("{s:o, s:O}", "job", job_json_of_id(request_daemon(r), id, &err), "keys",
                                         keys));
    json_decref(keys);
fail:
    if (err.code)
        request_fail(r, &err, diagnostics_to_json(&found, ""));
    json_decref(event);
    json_decref(spec);
    json_decref(stored);
}
