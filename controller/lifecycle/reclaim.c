/* SPDX-License-Identifier: Apache-2.0 */
/* reclaim.c - see reclaim.h */
#include "controller/lifecycle/reclaim.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/os/log.h"
#include "controller/base/daemon.h"
#include "controller/base/file_work.h"
#include "controller/http/server.h"
#include "controller/job/active_jobs.h"
#include "controller/job/job.h"
#include "controller/job/job_dir.h"
#include "controller/job/reclaim_list.h"
#include "controller/lifecycle/removal.h"
#include "db/jobs.h"
#include "db/removed.h"
#include "engine/base/err.h"

/* PATIENCE_MS: to count the files. */
enum { PATIENCE_MS = 30000 };

struct reclaim {
    struct file_task    base;
    int64_t             job, since_ms;
    char                jobs_dir[PATH_MAX], full[PATH_MAX];    /* full: on the full disk */
    struct removed_row *rows;                                   /* of RECLAIM_SCAN */
    size_t              count;
    char                text[sizeof(((struct job_texts *)0)->frees)];
    char                by_hand[sizeof(((struct job_texts *)0)->by_hand)];
};

/* The bytes of a job's directory, 0 if it is on another file system. */
static int64_t bytes_there(struct removed_row *row, const char *dir, dev_t device)
{
    struct stat st;
    if (lstat(dir, &st) < 0 || st.st_dev != device)
        return 0;
    removal_measure(row, dir);
    return row->bytes + (row->checkpoint_bytes > 0 ? row->checkpoint_bytes : 0);
}

static void list_jobs(struct reclaim *r, dev_t device)
{
    struct reclaim_item *items = calloc(r->count + 1, sizeof(*items));
    char dir[PATH_MAX + 24];
    for (size_t i = 0; items && i < r->count; i++) {
        snprintf(dir, sizeof(dir), "%s/%lld", r->jobs_dir, (long long)r->rows[i].job);
        items[i] = (struct reclaim_item){ r->rows[i].job, bytes_there(&r->rows[i], dir, device) };
    }
    if (items)
        reclaim_list_text(r->text, sizeof(r->text), items, r->count);
    free(items);
}

static bool is_listed(const struct reclaim_dir *dirs, size_t n, const char *path)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(dirs[i].path, path) == 0)
            return true;
    return false;
}

/* The directories that specs name; if several jobs name one, of the newest job. */
static void list_dirs(struct reclaim *r, dev_t device)
{
    struct reclaim_dir *dirs = calloc(r->count + 1, sizeof(*dirs));
    size_t n = 0;
    int64_t bytes, unused;
    struct stat st;
    for (size_t i = 0; dirs && i < r->count; i++) {
        const char *path = r->rows[i].checkpoints;
        if (r->rows[i].checkpoint_bytes >= 0 || !path[0] || is_listed(dirs, n, path) || lstat(path, &st) < 0 ||
            st.st_dev != device)
            continue;
        removal_count(&bytes, &unused, path);
        dirs[n++] = (struct reclaim_dir){ r->rows[i].job, bytes, path };
    }
    if (dirs)
        reclaim_list_dirs(r->by_hand, sizeof(r->by_hand), dirs, n);
    free(dirs);
}

static void reclaim_work(struct file_task *task)
{
    struct reclaim *r = (struct reclaim *)task;
    struct stat st;
    if (stat(r->full, &st) < 0)
        return;
    list_jobs(r, st.st_dev);
    list_dirs(r, st.st_dev);
}

static void reclaim_destroy(struct file_task *task)
{
    struct reclaim *r = (struct reclaim *)task;
    free(r->rows);
    free(r);
}

static void reclaim_done(struct file_task *task)
{
    struct reclaim *r = (struct reclaim *)task;
    struct daemon *d = task->owner;
    struct job *job = active_jobs_find(d->active_jobs, r->job);
    if (job && job->disk_since_ms == r->since_ms && (r->text[0] || r->by_hand[0])) {
        snprintf(job_texts(job)->frees, sizeof(job->texts->frees), "%s", r->text);
        snprintf(job_texts(job)->by_hand, sizeof(job->texts->by_hand), "%s", r->by_hand);
        err_make_printable(job->texts->by_hand);
        server_wake(d->server, r->job);
    }
    reclaim_destroy(task);
}

/* True if a job that is not done names this directory. */
static bool is_in_use(const struct daemon *d, const char *dir)
{
    for (size_t i = 0; i < d->active_jobs->count; i++) {
        const char *theirs = d->active_jobs->jobs[i]->spec.dir;
        if (theirs && strcmp(theirs, dir) == 0)
            return true;
    }
    return false;
}

/* A job that may not be removed frees nothing. */
static int add(void *ctx, int64_t id, const char *name, const char *canonical)
{
    struct reclaim *r = ctx;
    struct err err = { 0 };
    struct removed_row *row = &r->rows[r->count];
    if (removal_plan_rows(row, r->base.owner, id, name, canonical, true, &err) < 0)
        return 0;
    if (row->checkpoint_bytes < 0 && row->checkpoints[0] && is_in_use(r->base.owner, row->checkpoints))
        row->checkpoints[0] = '\0';
    r->count++;
    return 0;
}

static int begin(struct reclaim *r, const struct job *job, struct err *err)
{
    struct daemon *d = job->daemon;
    const struct jobs_done which = { .scan = RECLAIM_SCAN, .ended_before_ms = INT64_MAX };
    int64_t next;
    char lane[48], own[PATH_MAX], what[PATH_MAX + 32];
    r->base = (struct file_task){ reclaim_work, reclaim_done, NULL, reclaim_destroy, .owner = d,
                                  .patience_ms = PATIENCE_MS };
    r->job = job->core.id;
    r->since_ms = job->disk_since_ms;
    r->rows = calloc(RECLAIM_SCAN, sizeof(*r->rows));
    job_dir(own, sizeof(own), d, r->job);
    snprintf(r->full, sizeof(r->full), "%s", job->spec.dir ? job->spec.dir : own);
    snprintf(r->jobs_dir, sizeof(r->jobs_dir), "%.*s/jobs", PATH_MAX - 6, d->home.path);
    snprintf(lane, sizeof(lane), "disk of %lld", (long long)r->job);
    snprintf(what, sizeof(what), "counting the files in %s", r->jobs_dir);
    if (!r->rows)
        return err_set(err, ERR_MEMORY, "out of memory for a list of jobs");
    if (jobs_done_each(d->store, &which, &next, add, r, err) < 0)
        return -1;
    return file_work_begin(d->files, &r->base, lane, what, err);
}

void reclaim_look(struct job *job)
{
    const int64_t since_ms = job_core_disk_wait(&job->core);
    struct err err = { 0 };
    char tag[24];
    if (job->disk_since_ms == since_ms)
        return;
    job->disk_since_ms = since_ms;
    if (job->texts->frees[0] || job->texts->by_hand[0])
        job_texts(job)->frees[0] = job_texts(job)->by_hand[0] = '\0';
    struct reclaim *r = since_ms ? calloc(1, sizeof(*r)) : NULL;
    if (!r || begin(r, job, &err) == 0)
        return;
    snprintf(tag, sizeof(tag), "%lld", (long long)job->core.id);
    log_warn(tag, "cannot list what could be deleted to free the disk: %s", err.text);
    reclaim_destroy(&r->base);
}
