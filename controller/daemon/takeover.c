/* SPDX-License-Identifier: Apache-2.0 */
/* takeover.c - see takeover.h */
#include "controller/daemon/takeover.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/os/log.h"
#include "controller/base/daemon.h"
#include "controller/job/job.h"
#include "controller/job/job_core_json.h"
#include "controller/job/job_dir.h"
#include "controller/job/job_env.h"
#include "controller/job/job_file.h"
#include "controller/job/job_store.h"
#include "db/jobs.h"
#include "db/removed.h"
#include "db/store.h"
#include "engine/base/dir_walk.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"
#include "engine/base/text_append.h"

enum { TOGETHER = 200 /* in one commit */, LATEST = 200 };

/* ---- lists of ids ---- */

int takeover_ids_put(struct ids *ids, int64_t id)
{
    if (ids->count == ids->room) {
        ids->room = ids->room ? 2 * ids->room : 64;
        int64_t *list = reallocarray(ids->list, ids->room, sizeof(*list));
        if (!list)
            return -1;
        ids->list = list;
    }
    ids->list[ids->count++] = id;
    return 0;
}

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static bool has(const struct ids *ids, int64_t id)
{
    return ids->count > 0 && bsearch(&id, ids->list, ids->count, sizeof(*ids->list), compare);
}

static int list_dirs(struct ids *ids, const char *home, struct err *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%.4000s/jobs", home);
    DIR *dir = opendir(path);
    struct dirent *e;
    int rc = dir || errno == ENOENT ? 0 : err_set(err, ERR_SYSTEM, "cannot read %s: %m", path);
    while (rc == 0 && (rc = dir_walk_next(&e, dir, path, err)) > 0) {
        char *end;
        const long long id = strtoll(e->d_name, &end, 10);
        rc = !*end && end != e->d_name && id > 0 && id < INT64_MAX && takeover_ids_put(ids, id) < 0
             ? err_set(err, ERR_MEMORY, "out of memory for the list of jobs") : 0;
    }
    if (dir)
        closedir(dir);
    if (ids->count > 0)
        qsort(ids->list, ids->count, sizeof(*ids->list), compare);
    return rc;
}

static int put_row(void *ctx, int64_t id, bool started, bool done)
{
    (void)started;
    (void)done;
    return takeover_ids_put(ctx, id);
}

/* ---- one job ---- */

static json_t *body_of(const json_t *file, int64_t had)
{
    char text[200];
    const long long seq = (long long)field_int(file, "seq", 1), from = had > 1 ? (long long)had + 1 : 2;
    if (from <= seq)
        snprintf(text, sizeof(text), "the store had lost this job's events %lld to %lld: it continues from its "
                 JOB_FILE ", and these events and the curves of that time are lost", from, seq);
    else
        snprintf(text, sizeof(text), "the store had lost this job: it was taken over from its " JOB_FILE);
    json_t *body = json_make("{s:s}", "text", text);
    static const char *const keys[] = { "state", "run", "placed", "lost", "lease_ms", "checkpoint", "loss",
                                        "samples_per_s" };
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        json_object_set(body, keys[i], json_object_get(file, keys[i]));
    return body;
}

static int store(struct job *job, const struct job_row *row, const json_t *file, const struct job_core *core,
                 struct err *err)
{
    const int64_t had = row ? row->last_seq : 0, seq = field_int(file, "seq", 1);
    json_t *body = body_of(file, had), *submitted = json_object_get(file, "submitted");
    const struct core_event events[2] = {
        { .kind = EVENT_SUBMITTED, .name = event_kind_name(EVENT_SUBMITTED), .keep = true, .at_ms = core->submitted_ms,
          .body = submitted },
        { .kind = EVENT_REBUILT, .name = event_kind_name(EVENT_REBUILT), .keep = true, .at_ms = daemon_now_ms(),
          .attempt = core->attempt, .body = body } };
    job->retry_of = field_int(submitted, "retry_of", -1);
    const int rc = job_store_take_over(job, row, events, had > seq ? had : seq, field_text(file, "yaml"),
                                       field_text(file, "canonical"), err);
    json_decref(body);
    return rc;
}

/* row: the store's row of it, or NULL. */
static int take(struct takeover *t, int64_t id, const struct job_row *row, const json_t *file, struct err *err)
{
    struct daemon *d = t->daemon;
    struct job_core core = { .id = id };
    if (job_core_json_read(&core, json_object_get(file, "state"), err) < 0)
        return -1;
    json_t *spec = json_loads(field_text(file, "canonical"), 0, NULL);
    struct job *job = spec ? job_create(d, id, spec, err) : NULL;
    const int rc = job ? store(job, row, file, &core, err)
                   : spec ? -1 : err_set(err, ERR_DATA, "the spec in its " JOB_FILE " is not JSON");
    job_destroy(job);
    json_decref(spec);
    if (rc < 0)
        return -1;
    t->taken++;
    if (++t->open < TOGETHER)
        return 0;
    t->open = 0;
    return store_commit_group(d->store, err);
}

static void note_unreadable(struct takeover *t, int64_t id)
{
    const size_t n = strlen(t->ids);
    t->unreadable++;
    if (n + 48 < sizeof(t->ids))
        snprintf(t->ids + n, sizeof(t->ids) - n, "%s%lld", n ? ", " : "", (long long)id);
    else if (t->ids[n - 1] != '.')
        snprintf(t->ids + n, sizeof(t->ids) - n, ", ...");
}

static int take_unknown(struct takeover *t, int64_t id, struct err *err)
{
    const char *home = t->daemon->home.path;
    struct err why = { 0 };
    json_t *file = job_file_read(home, id, &why);
    if (!file || take(t, id, NULL, file, &why) < 0) {
        if (why.code == ERR_MEMORY)
            return err_set(err, why.code, "%s", why.text);
        if (file || job_file_is_job(home, id)) {
            log_error(NULL, "job %lld is not taken over: %s", (long long)id, why.text);
            note_unreadable(t, id);
        }
    }
    json_decref(file);
    return 0;
}

/* ---- all without a row ---- */

static int forget(struct takeover *t, int64_t id, struct err *err)
{
    struct store *s = t->daemon->store;
    if (store_join(s, err) < 0)
        return -1;
    if (removed_forget(s, id, err) == 0)
        return store_leave(s, err);
    store_undo(s);
    return -1;
}

int takeover_begin(struct takeover *t, struct daemon *d, struct err *err)
{
    struct ids dirs = { 0 }, rows = { 0 };
    *t = (struct takeover){ .daemon = d };
    int rc = list_dirs(&dirs, d->home.path, err);
    if (rc == 0 && jobs_ids(d->store, put_row, &rows, err) != 0)
        rc = err_set(err, ERR_MEMORY, "out of memory for the list of jobs");
    for (size_t i = 0; rc == 0 && i < dirs.count; i++)
        rc = has(&rows, dirs.list[i]) ? 0 : take_unknown(t, dirs.list[i], err);
    for (size_t i = 0; rc == 0 && d->store_state.restored && i < rows.count; i++)
        rc = job_file_is_job(d->home.path, rows.list[i]) ? 0 : forget(t, rows.list[i], err);
    if (rc == 0)
        rc = store_commit_group(d->store, err);
    t->open = 0;
    t->newest = dirs.count ? dirs.list[dirs.count - 1] : 0;
    if (d->store_state.is_new && dirs.count == 0)
        d->store_state.lost[0] = '\0';       /* a new home */
    free(dirs.list);
    free(rows.list);
    return rc;
}

/* ---- open jobs of the store ---- */

static bool is_of(const json_t *file, const char *origin)
{
    const char *theirs = field_text(file, "origin");
    return !origin[0] || !theirs[0] || strcmp(theirs, origin) == 0;
}

static int take_newer(struct takeover *t, int64_t id, const json_t *file, struct err *err)
{
    struct job_row row;
    if (!file || jobs_get(&row, t->daemon->store, id, NULL) < 0 || field_int(file, "seq", 0) <= row.last_seq)
        return 0;
    json_t *spec = job_store_spec(t->daemon->store, id, NULL);
    const bool same = is_of(file, field_text(json_object_get(spec, "checkpoint"), "origin"));
    json_decref(spec);
    return same ? take(t, id, &row, file, err) : 0;
}

static int take_again(struct takeover *t, int64_t id, const json_t *file, struct err *err)
{
    return forget(t, id, err) < 0 ? -1 : take(t, id, NULL, file, err);
}

static int end_damaged(struct takeover *t, int64_t id, const struct err *why, struct err *err)
{
    log_error(NULL, "cannot load job %lld: %s", (long long)id, why->text);
    return jobs_end(t->daemon->store, id, "its rows in jobs.db are damaged, and its " JOB_FILE " is missing or damaged",
                    daemon_now_ms(), err);
}

static void write_again(const struct job *job)
{
    struct err err = { 0 };
    if (job_file_write(job, false, &err) < 0)
        log_warn(NULL, "%s", err.text);
}

static void see_file(struct job *job, const json_t *file)
{
    const char *home = job->daemon->home.path;
    json_t *spec = file ? NULL : job_dir_spec(home, job->core.id);
    job->strange = file ? !is_of(file, job->spec.origin)
                        : job_file_of_another(home, job->core.id, spec, job->spec.origin);
    json_decref(spec);
    if (!file || field_int(file, "seq", 0) < job->matters_seq)
        write_again(job);
}

int takeover_job(struct job **job, struct takeover *t, int64_t id, takeover_load_fn load, struct err *err)
{
    struct daemon *d = t->daemon;
    struct err why = { 0 };
    json_t *file = job_file_read(d->home.path, id, NULL);
    int rc = take_newer(t, id, file, &why);
    *job = NULL;
    if (rc == 0)
        rc = load(job, d, id, &why);
    if (rc < 0 && why.code != ERR_MEMORY && file && take_again(t, id, file, &why) == 0)
        rc = load(job, d, id, &why);
    if (rc == 0)
        see_file(*job, file);
    else
        rc = why.code == ERR_MEMORY ? err_set(err, why.code, "%s", why.text) : end_damaged(t, id, &why, err);
    json_decref(file);
    return rc;
}

int takeover_end(struct takeover *t, struct err *err)
{
    struct daemon *d = t->daemon;
    char *lost = d->store_state.lost;
    const size_t size = sizeof(d->store_state.lost);
    if (store_commit_group(d->store, err) < 0)
        return -1;
    if (t->taken == 0 && t->unreadable == 0)
        return 0;
    if (!lost[0])
        text_append(lost, size, "the store was older than the jobs' directories");
    if (t->taken > 0)
        text_append(lost, size, "; %lld job%s taken over from job.json, and their latest events, curves and notes "
                    "about nodes are lost", (long long)t->taken, t->taken == 1 ? " was" : "s were");
    if (t->unreadable > 0)
        text_append(lost, size, "; %lld job%s (%s) %s not taken over, because job.json is missing or damaged: restore "
                    "the directory from a backup", (long long)t->unreadable, t->unreadable == 1 ? "" : "s", t->ids,
                    t->unreadable == 1 ? "was" : "were");
    if (t->taken > 0)
        job_env_sweep(d);
    return 0;
}

/* ---- jobs that are done ---- */

static int refresh(struct daemon *d, int64_t id, takeover_load_fn load)
{
    struct job_row row;
    struct err err = { 0 };
    struct job *job = NULL;
    json_t *file = job_file_read(d->home.path, id, NULL);
    if (job_file_is_job(d->home.path, id) && jobs_get(&row, d->store, id, &err) == 0 &&
        (!file || field_int(file, "seq", 0) < row.last_seq) && load(&job, d, id, &err) == 0)
        see_file(job, file);
    job_destroy(job);
    json_decref(file);
    return 0;
}

void takeover_refresh(struct daemon *d, takeover_load_fn load)
{
    struct ids ids = { 0 };
    struct err err = { 0 };
    if (jobs_done_latest(d->store, LATEST, put_row, &ids, &err) < 0)
        log_warn(NULL, "%s", err.text);
    for (size_t i = 0; i < ids.count; i++)
        refresh(d, ids.list[i], load);
    free(ids.list);
}
