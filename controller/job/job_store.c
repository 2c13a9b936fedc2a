/* SPDX-License-Identifier: Apache-2.0 */
/* job_store.c - see job_store.h */
#include "controller/job/job_store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/base/daemon.h"
#include "controller/job/job.h"
#include "controller/job/job_dir.h"
#include "controller/job/job_notice.h"
#include "db/checkpoints.h"
#include "db/events.h"
#include "db/goodput_rows.h"
#include "db/metrics.h"
#include "db/store.h"
#include "engine/base/err.h"
#include "engine/base/field.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#define CURVE_TIME "time"     /* when the step was made, in seconds since 1970 */
static const char *const curves[] = { "loss", "grad_norm", "lr", "samples_per_s", "step_ms", "data_ms", "forward_ms",
                                      "backward_ms", "reduce_ms", "optimizer_ms", CURVE_TIME };

/* Changes to the job in memory, made when the transaction commits. */
struct draft {
    struct job_stored   stored;
    struct attempt_row *attempt;        /* a copy, or the new row */
    bool                new_attempt;
};

static int write_event(struct job *job, struct draft *draft, const struct core_event *e,
                       const struct event_source *told, struct err *err)
{
    char *body = json_dumps(e->body, JSON_COMPACT);
    if (!body)
        return err_set(err, ERR_MEMORY, "out of memory for an event of job %lld", (long long)job->core.id);
    struct event_row row = {
        .job = job->core.id, .seq = draft->stored.last_seq + 1, .at_ms = e->at_ms,
        .source = e->from_agent ? "agent" : "controller", .kind = e->name,
        .attempt = e->attempt, .agent_seq = -1, .incarnation = -1, .body = body,
    };
    if (e->from_agent && told) {
        row.node = draft->attempt->node;
        row.incarnation = told->incarnation;
        row.agent_seq = told->seq;
    }
    int rc = events_append(job->daemon->store, &row, err);
    free(body);
    if (rc == 0)
        draft->stored.last_seq++;
    return rc;
}

static int begin_attempt(struct job *job, struct draft *draft, const struct core_event *e, struct err *err)
{
    struct attempt_row *a = draft->attempt;
    *a = (struct attempt_row){ .job = job->core.id, .attempt = e->attempt, .pid = -1,
                               .start_time = -1, .started_ms = e->at_ms, .ended_ms = -1 };
    snprintf(a->nonce, sizeof(a->nonce), "%s", field_text(e->body, "nonce"));
    snprintf(a->node, sizeof(a->node), "%s", field_text(e->body, "node"));
    job_dir_run(a->run_dir, sizeof(a->run_dir), job->daemon, a->job, a->attempt);
    draft->new_attempt = true;
    return attempts_insert(job->daemon->store, a, err);
}

static int write_checkpoint(struct job *job, const struct core_event *e, struct err *err)
{
    const struct checkpoint_row row = {
        .step = field_int(e->body, "step", 0), .path = field_text(e->body, "path"),
        .digest = field_text(e->body, "digest"), .bytes = field_int(e->body, "bytes", 0),
        .trust = "written", .at_ms = e->at_ms,
    };
    return checkpoints_put(job->daemon->store, job->core.id, &row, err);
}

/* The loss curve's counter serves all curves: they have the same steps. */
static int make_room(struct job *job, struct draft *draft, struct err *err)
{
    struct store *s = job->daemon->store;
    const int64_t id = job->core.id;
    if (draft->stored.curve_points < 0 && metrics_count(&draft->stored.curve_points, s, id, "loss", err) < 0)
        return -1;
    if (draft->stored.curve_points < METRICS_CAP)
        return 0;
    draft->stored.curve_stride *= 2;
    for (size_t i = 0; i < ARRAY_LEN(curves); i++)
        if (metrics_thin(s, id, curves[i], draft->stored.curve_stride, err) < 0)
            return -1;
    return metrics_count(&draft->stored.curve_points, s, id, "loss", err);
}

/* NaN: the event does not have it. */
static double value_of(const char *curve, const struct core_event *e)
{
    const json_t *v = json_object_get(e->body, curve);
    if (strcmp(curve, CURVE_TIME) == 0)
        return (double)e->at_ms / 1000;
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static int write_curves(struct job *job, struct draft *draft, const struct core_event *e, struct err *err)
{
    const int64_t step = field_int(e->body, "step", -1);
    if (step < 0)
        return 0;
    if (make_room(job, draft, err) < 0)
        return -1;
    if (step % draft->stored.curve_stride != 0 && draft->stored.curve_points > METRICS_CAP / 2)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(curves); i++) {
        const double v = value_of(curves[i], e);
        if (!isfinite(v))
            continue;
        draft->stored.curve_points += i == 0;
        if (metrics_put(job->daemon->store, job->core.id, curves[i], step, v, err) < 0)
            return -1;
    }
    return 0;
}

/* The attempt of a job that was taken over. */
static int take_attempt(struct job *job, struct draft *draft, const struct core_event *e, struct err *err)
{
    struct store *s = job->daemon->store;
    struct attempt_row *a = draft->attempt;
    const json_t *run = json_object_get(e->body, "run"), *path = json_object_get(e->body, "checkpoint");
    const struct checkpoint_row newest = { .step = job->core.checkpoint, .path = field_text(e->body, "checkpoint"),
                                           .digest = "", .trust = "written", .at_ms = e->at_ms };
    if (json_is_string(path) && checkpoints_put(s, job->core.id, &newest, err) < 0)
        return -1;
    if (!json_is_object(run))
        return 0;
    *a = (struct attempt_row){ .job = job->core.id, .attempt = job->core.attempt, .pid = field_int(run, "pid", -1),
                               .start_time = field_int(run, "start_time", -1),
                               .incarnation = field_int(run, "incarnation", 0), .acked = field_int(run, "acked", 0),
                               .started_ms = field_int(run, "started_ms", 0),
                               .ended_ms = field_int(run, "ended_ms", -1) };
    snprintf(a->nonce, sizeof(a->nonce), "%s", field_text(run, "nonce"));
    snprintf(a->node, sizeof(a->node), "%s", field_text(run, "node"));
    snprintf(a->boot_id, sizeof(a->boot_id), "%s", field_text(run, "boot_id"));
    job_dir_run(a->run_dir, sizeof(a->run_dir), job->daemon, a->job, a->attempt);
    return attempts_put(s, a, err);
}

/* Stores the rows derived from an event, besides its own. */
static int write_consequences(struct job *job, struct draft *draft, const struct core_event *e, struct err *err)
{
    struct store *s = job->daemon->store;
    struct attempt_row *a = draft->attempt;
    if (e->kind == EVENT_PLACED)
        return begin_attempt(job, draft, e, err);
    if (e->kind == EVENT_REBUILT)
        return take_attempt(job, draft, e, err);
    if (e->kind == EVENT_AGENT_UP) {
        snprintf(a->boot_id, sizeof(a->boot_id), "%s", field_text(e->body, "boot_id"));
        a->pid = field_int(e->body, "pid", -1);
        a->start_time = field_int(e->body, "start_time", -1);
        a->incarnation = field_int(e->body, "incarnation", 0);
    } else if (event_kind_is(e->kind, EVENT_IS_END)) {
        a->ended_ms = e->at_ms;
    } else if (e->kind == EVENT_CHECKPOINT) {
        return write_checkpoint(job, e, err);
    } else if (e->kind == EVENT_QUARANTINED) {
        return checkpoints_distrust(s, job->core.id, field_text(e->body, "path"), err);
    } else if (e->kind == EVENT_STEP) {
        return write_curves(job, draft, e, err);
    } else if (e->kind == EVENT_RANK_STARTED && field_int(e->body, "rank", 0) == 0) {
        draft->stored.curve_points = -1;
        return metrics_cut(s, job->core.id, field_int(e->body, "resume_step", 0), err);
    }
    return 0;
}

/* Adds the goodput settled since then to the newest generation. */
static int write_spent(struct job *job, const struct job_core *was, struct err *err)
{
    const struct job_core *c = &job->core;
    const struct goodput *then = &was->goodput.spent;
    struct goodput more = c->goodput.spent;
    more.rank_ms -= then->rank_ms;
    for (int i = 0; i < BUCKETS; i++)
        more.ms[i] -= then->ms[i];
    return more.rank_ms == 0 ? 0 : goodput_rows_add(job->daemon->store, c->id, c->attempt, c->generation, &more, err);
}

static int write_all(struct job *job, const struct job_core *was, struct draft *draft,
                     const struct core_output *out, const struct event_source *told, struct err *err)
{
    struct store *s = job->daemon->store;
    for (int i = 0; i < out->count; i++) {
        const struct core_event *e = &out->events[i];
        if ((e->keep && write_event(job, draft, e, told, err) < 0) ||
            write_consequences(job, draft, e, err) < 0)
            return -1;
    }
    if (write_spent(job, was, err) < 0)
        return -1;
    if (told)
        draft->attempt->acked = told->seq;
    if (draft->attempt->attempt > 0 && attempts_update(s, draft->attempt, err) < 0)
        return -1;
    struct job_row row;
    const int64_t seq = job->stored.last_seq;
    job->stored.last_seq = draft->stored.last_seq;
    job_row_make(&row, job);
    job->stored.last_seq = seq;
    return jobs_update(s, &row, err);
}

static int draft_make(struct draft *draft, const struct job *job, struct err *err)
{
    *draft = (struct draft){ .stored = job->stored, .attempt = calloc(1, sizeof(*draft->attempt)) };
    if (!draft->attempt)
        return err_set(err, ERR_MEMORY, "out of memory for an attempt of job %lld", (long long)job->core.id);
    if (job->attempt)
        *draft->attempt = *job->attempt;
    return 0;
}

static void draft_keep(struct draft *draft, struct job *job)
{
    job->stored = draft->stored;
    if (draft->attempt->attempt > 0) {
        free(job->attempt);
        job->attempt = draft->attempt;
        draft->attempt = NULL;
    }
}

static int write_spec(struct job *job, const char *yaml, const char *canonical, struct err *err)
{
    struct job_row row;
    job_row_make(&row, job);
    return jobs_edit(job->daemon->store, &row, yaml, canonical, err);
}

/* The new spec of an edited job; NULL: the spec is unchanged. */
struct spec_texts {
    const char *yaml, *canonical;
};

static int write_whole(struct job *job, const struct job_core *was, const struct core_output *out,
                       const struct event_source *told, const struct spec_texts *spec, struct err *err)
{
    struct store *s = job->daemon->store;
    struct draft draft;
    int rc = -1;
    if (draft_make(&draft, job, err) < 0)
        return -1;
    if (store_join(s, err) < 0)
        goto out;
    if (write_all(job, was, &draft, out, told, err) < 0 || job_notice_note(job, was, out, err) < 0 ||
        (spec && write_spec(job, spec->yaml, spec->canonical, err) < 0)) {
        store_undo(s);
        goto out;
    }
    rc = store_leave(s, err);
    if (rc == 0)
        draft_keep(&draft, job);
out:
    free(draft.attempt);
    return rc;
}

int job_store_write(struct job *job, const struct job_core *was, const struct core_output *out,
                    const struct event_source *told, struct err *err)
{
    return write_whole(job, was, out, told, NULL, err);
}

int job_store_edit(struct job *job, const struct job_core *was, const struct core_output *out, const char *yaml,
                   const char *canonical, struct err *err)
{
    const struct spec_texts spec = {yaml, canonical};
    return write_whole(job, was, out, NULL, &spec, err);
}

int job_store_submit(struct job *job, const struct core_output *out, const char *yaml,
                     const char *canonical, struct err *err)
{
    struct store *s = job->daemon->store;
    struct draft draft = { .attempt = NULL };
    struct job_row row;
    job_row_make(&row, job);
    row.last_seq = out->count;
    if (jobs_insert(s, &row, yaml, canonical, err) < 0)
        return -1;
    for (int i = 0; i < out->count; i++)
        if (write_event(job, &draft, &out->events[i], NULL, err) < 0)
            return -1;
    job->stored.last_seq = draft.stored.last_seq;
    return 0;
}

static int take_over(struct job *job, const struct core_event *e, int64_t after, struct err *err)
{
    const struct core_output out = { .events = { *e }, .count = 1 };
    const struct job_core was = job->core;
    struct draft draft;
    if (job_core_replay(&job->core, e, err) < 0)
        return -1;
    job_note(job, e->kind, e->body, e->at_ms);
    job->stored.last_seq = after;
    if (draft_make(&draft, job, err) < 0)
        return -1;
    const int rc = write_all(job, &was, &draft, &out, NULL, err);
    if (rc == 0)
        draft_keep(&draft, job);
    free(draft.attempt);
    return rc;
}

int job_store_take_over(struct job *job, const struct job_row *row, const struct core_event *events, int64_t after,
                        const char *yaml, const char *canonical, struct err *err)
{
    struct store *s = job->daemon->store;
    const struct core_output first = { .events = { events[0] }, .count = 1 };
    int rc = -1;
    if (job_core_replay(&job->core, &events[0], err) < 0 || store_join(s, err) < 0)
        return -1;
    job_note(job, EVENT_SUBMITTED, events[0].body, events[0].at_ms);
    if (!row)
        rc = job_store_submit(job, &first, yaml, canonical, err);
    else if (goodput_rows_forget(s, job->core.id, err) == 0)    /* the second event brings all of it */
        rc = write_spec(job, yaml, canonical, err);
    if (rc == 0)
        rc = take_over(job, &events[1], after, err);
    if (rc == 0)
        return store_leave(s, err);
    store_undo(s);
    return -1;
}

int job_store_heard(struct job *job, const struct event_source *told, struct err *err)
{
    struct attempt_row row = *job->attempt;
    row.acked = told->seq;
    if (attempts_update(job->daemon->store, &row, err) < 0)
        return -1;
    job->attempt->acked = told->seq;
    return 0;
}

json_t *job_store_spec(struct store *s, int64_t id, struct err *err)
{
    char *yaml = NULL, *canonical = NULL;
    if (jobs_spec(&yaml, &canonical, s, id, err) < 0)
        return NULL;
    json_t *spec = json_loads(canonical, 0, NULL);
    if (!spec)
        err_set(err, ERR_DATA, "the stored spec of job %lld is not JSON", (long long)id);
    free(yaml);
    free(canonical);
    return spec;
}
