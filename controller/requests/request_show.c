/* SPDX-License-Identifier: Apache-2.0 */
/* request_show.c - requests answered at once: lists, one job, curves */
#include "agent/core/goodput.h"
#include "controller/nodes/fleet.h"
#include "controller/nodes/machine_users.h"
#include "controller/requests/requests.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "controller/job/job_store.h"
#include "engine/base/field.h"
#include "controller/base/daemon.h"
#include "controller/base/file_work.h"
#include "controller/base/utc.h"
#include "controller/requests/job_history.h"
#include "controller/requests/job_json.h"
#include "controller/notify/notifier.h"
#include "controller/requests/request_job.h"
#include "controller/requests/why.h"
#include "controller/http/request.h"
#include "controller/job/active_jobs.h"
#include "controller/job/job.h"
#include "controller/job/job_code.h"
#include "controller/job/job_dir.h"
#include "controller/job/job_env.h"
#include "controller/job/job_list.h"
#include "controller/remote/remote.h"
#include "db/checkpoints.h"
#include "db/events.h"
#include "db/goodput_rows.h"
#include "db/metrics.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"

enum { LIST_MAX = 10000, IDS_MAX = 10000, POINTS_MAX = 10000, CURVES_MAX = 20, CHECKPOINTS_MAX = 100 };

struct list {
    struct daemon *daemon;
    json_t        *jobs;
    const char    *name;        /* or NULL */
    int64_t        limit;
    json_t        *counts;      /* list_ordered(): of each state; else NULL */
};

static int list_stored(void *ctx, const struct job_row *row)
{
    struct list *l = ctx;
    if (l->name && strcmp(l->name, row->name) != 0)
        return 0;
    const struct job *job = active_jobs_find(l->daemon->active_jobs, row->id);
    json_array_append_new(l->jobs, job ? job_json_of_job(job) : job_json_of_stored(l->daemon, row));
    return json_array_size(l->jobs) >= (size_t)l->limit;
}

static void list_open(struct list *l, int64_t before)
{
    const struct active_jobs *active_jobs = l->daemon->active_jobs;
    for (size_t i = active_jobs->count; i-- > 0 && json_array_size(l->jobs) < (size_t)l->limit;) {
        const struct job *job = active_jobs->jobs[i];
        if ((before <= 0 || job->core.id < before) && !job->member &&
            (!l->name || strcmp(l->name, job->spec.name) == 0))
            json_array_append_new(l->jobs, job_json_of_job(job));
    }
}

/* Lists the jobs in these states, in the order of `status`; l->counts counts all of them. -1: no memory. */
static int list_ordered(struct list *l, job_list_words words)
{
    const struct active_jobs *all = l->daemon->active_jobs;
    struct job_list_item *items = calloc(all->count + 1, sizeof(*items));
    size_t n = 0;
    if (!items)
        return -1;
    for (size_t i = 0; i < all->count; i++) {
        const struct job_core *c = &all->jobs[i]->core;
        const int word = job_list_word(job_state_name(c->state), c->held, "");
        if ((words >> word & 1u) && !all->jobs[i]->member &&
            (!l->name || strcmp(l->name, all->jobs[i]->spec.name) == 0))
            items[n++] = (struct job_list_item){ word, c->priority, c->id, all->jobs[i] };
    }
    job_list_order(items, n);
    for (size_t i = 0; i < n && i < (size_t)l->limit; i++)
        json_array_append_new(l->jobs, job_json_of_job(items[i].of));
    l->counts = job_list_count(items, n);
    free(items);
    return 0;
}

/* "3-5,7": the existing ones, newest first. */
static int list_ids(struct list *l, const char *text, struct err *err)
{
    int64_t ids[64][2];
    int n = 0;
    for (const char *p = text; *p; n++) {
        char *end;
        errno = 0;
        ids[n][0] = ids[n][1] = strtoll(p, &end, 10);
        if (end != p && *end == '-')
            ids[n][1] = strtoll(p = end + 1, &end, 10);
        if (errno || end == p || (*end && *end != ',') || ids[n][0] <= 0 ||
            ids[n][1] < ids[n][0] || ids[n][1] - ids[n][0] >= IDS_MAX || n == 63)
            return err_set(err, ERR_USAGE, "ids=%.60s is not a list such as 3-5,7", text);
        p = *end ? end + 1 : end;
    }
    for (int i = n; i-- > 0;) {
        for (int64_t id = ids[i][1]; id >= ids[i][0]; id--) {
            json_t *row = job_json_of_id(l->daemon, id, NULL);
            if (row)
                json_array_append_new(l->jobs, row);
        }
    }
    return 0;
}

void request_list(struct request *r)
{
    struct daemon *d = request_daemon(r);
    struct err err = { 0 };
    int64_t all, before, sweep;
    struct list l = { .daemon = d, .name = request_query(r, "name") };
    const char *ids = request_query(r, "ids"), *states = request_query(r, "states");
    job_list_words words = 0;
    if (states && job_list_parse(&words, states, &err) < 0) {
        request_fail(r, &err, NULL);
        return;
    }
    if (request_number(&all, r, "all", 0) < 0 || request_number(&before, r, "before", 0) < 0 ||
        request_number(&l.limit, r, "limit", 100) < 0 || request_number(&sweep, r, "sweep", 0) < 0)
        return;
    if (l.limit < 1 || l.limit > LIST_MAX)
        l.limit = l.limit < 1 ? 1 : LIST_MAX;
    l.jobs = json_array();
    int rc = 0;
    if (ids)
        rc = list_ids(&l, ids, &err);
    else if (sweep > 0)
        rc = jobs_members_each(d->store, sweep, -1, l.limit, list_stored, &l, &err);
    else if (states)
        rc = list_ordered(&l, words & JOB_LIST_ACTIVE) < 0 ? err_set(&err, ERR_MEMORY, "out of memory for a list") : 0;
    else if (all)
        rc = jobs_each(d->store, false, before, l.name ? INT64_MAX : l.limit, list_stored, &l, &err);
    else
        list_open(&l, before);
    if (rc < 0) {
        json_decref(l.jobs);
        request_fail(r, &err, NULL);
        return;
    }
    char notify[600], machine[1200];
    notifier_problem(notify, sizeof(notify), d);
    json_t *users = machine_users_list(request_daemon(r));
    machine_users_text(machine, sizeof(machine), users);
    json_decref(users);
    request_answer(r, 200, json_make("{s:o, s:s, s:s, s:s, s:o*}", "jobs", l.jobs, "store", d->store_state.lost,
                                     "notify", notify, "machine", machine, "counts", l.counts));
}

/* ---- one job ---- */

static int add_checkpoint(void *ctx, const struct checkpoint_row *c)
{
    json_array_append_new(ctx, json_make("{s:I, s:s, s:s, s:I, s:s, s:o}", "step", (json_int_t)c->step, "path",
                                         c->path, "digest", c->digest, "bytes", (json_int_t)c->bytes,
                                         "trust", c->trust, "at", utc_json(c->at_ms)));
    return 0;
}

static json_t *paths(const struct daemon *d, int64_t id, const json_t *spec)
{
    char dir[PATH_MAX], yaml[PATH_MAX + 16];
    job_dir(dir, sizeof(dir), d, id);
    snprintf(yaml, sizeof(yaml), "%s/spec.yaml", dir);
    return json_make("{s:s, s:s, s:s}", "dir", dir, "spec", yaml, "checkpoints",
                     field_text(json_object_get(spec, "checkpoint"), "dir"));
}

/* How its ranks spent their time, in seconds: stored, or up to now for a live job. */
static json_t *spent_of(struct daemon *d, int64_t id, struct err *err)
{
    const struct job *job = active_jobs_find(d->active_jobs, id);
    struct goodput s;
    if (job)
        job_spent(&s, job, daemon_now_ms());
    else if (goodput_rows_sum(&s, d->store, id, err) < 0)
        return NULL;
    json_t *out = json_make("{s:f}", "rank_s", (double)s.rank_ms / 1000);
    for (int i = 0; i < BUCKETS && out; i++)
        json_object_set_new(out, bucket_name((enum bucket)i), json_real((double)s.ms[i] / 1000));
    return out ? out : (err_set(err, ERR_MEMORY, "out of memory for the goodput"), NULL);
}

/* The answer, except for what only files can show; a thread completes it. */
struct show_task {
    struct file_task     base;
    struct job_dir_files files;
    json_t              *answer, *checkpoints, *without;        /* `without` is not for the thread */
    struct err           err;
};

static void show_work(struct file_task *task)
{
    struct show_task *t = (struct show_task *)task;
    json_t *c;
    size_t i;
    if (job_dir_files_write(&t->files, &t->err) < 0 && t->err.errnum != ENOSPC && t->err.errnum != EDQUOT)
        return;
    t->err = (struct err){ 0 };     /* the disk is full: the files are made later */
    json_object_set_new(t->answer, "environment", job_env_describe(t->files.dir, json_object_get(t->answer, "spec")));
    json_t *code = job_code_info(t->files.dir);
    json_object_set_new(t->answer, "code", code ? code : json_null());
    /* The newest `keep` are on disk; older ones were pruned. */
    json_array_foreach (t->checkpoints, i, c)
        if (access(field_text(c, "path"), F_OK) < 0)
            json_object_set_new(c, "trust", json_text("removed"));
}

static void show_destroy(struct file_task *task)
{
    struct show_task *t = (struct show_task *)task;
    job_dir_files_fini(&t->files);
    json_decref(t->answer);
    json_decref(t->checkpoints);
    json_decref(t->without);
    free(t);
}

static json_t *show_otherwise(struct file_task *task)
{
    struct show_task *t = (struct show_task *)task;
    json_t *answer = t->without;
    t->without = NULL;
    return answer;
}

/* Checkpoints on other machines cannot be checked: none is in the task. */
static void show_begin(struct request *r, int64_t id, json_t *answer, struct err *err)
{
    struct show_task *t = calloc(1, sizeof(*t));
    char lane[48], what[2 * PATH_MAX + 80];
    const char *dir = field_text(json_object_get(answer, "paths"), "checkpoints");
    if (!t || job_dir_files_init(&t->files, request_daemon(r), id, err) < 0) {
        json_decref(answer);
        free(t);
        request_fail(r, err, NULL);
        return;
    }
    t->base.work = show_work;
    t->base.destroy = show_destroy;
    t->answer = answer;
    t->without = json_deep_copy(answer);
    if (remote_of_spec(json_object_get(answer, "spec")) != &remote_ssh)
        t->checkpoints = json_incref(json_object_get(answer, "checkpoints"));
    snprintf(lane, sizeof(lane), "files of %lld", (long long)id);
    snprintf(what, sizeof(what), "reading %s and its checkpoints in %s", t->files.dir, dir);
    request_work_or(r, &t->base, lane, what, show_otherwise);
}

static void show_done(struct request *r, const struct show_task *t)
{
    if (t->err.code)
        request_fail(r, &t->err, NULL);
    else
        request_answer(r, 200, json_incref(t->answer));
}

void request_show(struct request *r)
{
    struct daemon *d = request_daemon(r);
    struct err err = { 0 };
    json_t *row = NULL, *spec = NULL, *attempts = json_array(), *checkpoints = json_array();
    struct job_history history = { .attempts = attempts };
    json_t *spent = NULL;
    int64_t id, whole;
    if (request_worked(r)) {
        show_done(r, (const struct show_task *)request_worked(r));
        goto out;
    }
    if (request_number(&whole, r, "plan", 0) < 0)
        goto out;
    if (request_job_id(&id, d, request_job(r), &err) < 0 || !(row = job_json_of_id(d, id, &err)) ||
        !(spec = job_store_spec(d->store, id, &err)) ||
        events_each(d->store, id, 0, INT64_MAX, job_history_add, &history, &err) < 0 ||
        checkpoints_each(d->store, id, CHECKPOINTS_MAX, add_checkpoint, checkpoints, &err) < 0 ||
        !(spent = spent_of(d, id, &err)))
        request_fail(r, &err, NULL);
    else
        show_begin(r, id, json_make("{s:O, s:O?, s:O, s:O, s:O, s:o, s:O*, s:O*}", "job", row, "spec", spec,
                                    "attempts", attempts, "checkpoints", checkpoints, "goodput", spent,
                                    "paths", paths(d, id, spec), "set", history.set, "plan",
                                    whole ? history.plan : NULL),
                   &err);
out:
    json_decref(row);
    json_decref(spec);
    json_decref(spent);
    json_decref(history.plan);
    json_decref(history.set);
    json_decref(attempts);
    json_decref(checkpoints);
}

void request_why(struct request *r)
{
    struct daemon *d = request_daemon(r);
    struct err err = { 0 };
    int64_t id;
    json_t *why = NULL;
    if (request_job_id(&id, d, request_job(r), &err) == 0)
        why = why_make(d, id, &err);
    if (why)
        request_answer(r, 200, why);
    else
        request_fail(r, &err, NULL);
}

struct points {
    json_t *list;
    int64_t after;      /* of later steps only */
};

static int add_point(void *ctx, int64_t step, double value)
{
    const struct points *p = ctx;
    if (step > p->after)
        json_array_append_new(p->list, json_make("[I, o]", (json_int_t)step,
                                                 isfinite(value) ? json_real(value) : json_null()));
    return 0;
}

struct wanted {
    int64_t job, limit, after;
};

/* The points of a curve, a new array; NULL: *err. */
static json_t *points_of(struct daemon *d, const struct wanted *w, const char *name, struct err *err)
{
    struct points points = { .list = json_array(), .after = w->after };
    if (metrics_each(d->store, w->job, name, w->limit < 1 || w->limit > POINTS_MAX ? POINTS_MAX : w->limit, add_point,
                     &points, err) == 0)
        return points.list;
    json_decref(points.list);
    return NULL;
}

/* {name: points} of names such as "loss,lr"; NULL: *err. */
static json_t *curves_of(struct daemon *d, const struct wanted *w, const char *names, struct err *err)
{
    json_t *out = json_object();
    for (const char *p = names; *p; p += strspn(p, ",")) {
        char name[32];
        const size_t n = strcspn(p, ",");
        snprintf(name, sizeof(name), "%.*s", (int)(n < sizeof(name) ? n : sizeof(name) - 1), p);
        json_t *points = json_object_size(out) < CURVES_MAX ? points_of(d, w, name, err) : json_array();
        if (!points) {
            json_decref(out);
            return NULL;
        }
        json_object_set_new(out, name, points);
        p += n;
    }
    return out;
}

void request_metrics(struct request *r)
{
    struct daemon *d = request_daemon(r);
    struct err err = { 0 };
    struct job_row row;
    const char *name = request_query(r, "name"), *names = request_query(r, "names");
    struct wanted w;
    if (request_number(&w.limit, r, "limit", 500) < 0 || request_number(&w.after, r, "after", -1) < 0 ||
        request_job_row(&row, r) < 0)
        return;
    w.job = row.id;
    json_t *found = names ? curves_of(d, &w, names, &err) : points_of(d, &w, name ? name : "loss", &err);
    if (found)
        request_answer(r, 200, json_make("{s:o}", names ? "curves" : "points", found));
    else
        request_fail(r, &err, NULL);
}

void request_version(struct request *r)
{
    const struct daemon *d = request_daemon(r);
    request_answer(r, 200, json_make("{s:s, s:I, s:s, s:o, s:s}", "version", JOBCTL_VERSION, "pid",
                                     (json_int_t)getpid(), "home", d->home.path, "started_at",
                                     utc_json(d->started_ms), "boot_id", d->fleet->boot_id));
}
