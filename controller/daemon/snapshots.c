/* SPDX-License-Identifier: Apache-2.0 */
/* snapshots.c - see snapshots.h */
#include "controller/daemon/snapshots.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/os/file_system.h"
#include "agent/os/log.h"
#include "controller/base/daemon.h"
#include "controller/daemon/survey.h"
#include "controller/job/job_history.h"
#include "db/integrity.h"
#include "db/jobs.h"
#include "db/rebuild.h"
#include "db/store.h"
#include "engine/base/err.h"

#define FOLDER "snapshots"
#define PATTERN "jobs-%04d-%02d-%02d.db"

enum { LOOK_MS = 60 * 60 * 1000, NAMES = 64 };

struct snapshots {
    struct daemon *daemon;
    uv_timer_t     timer;
    uv_work_t      work;
    bool           busy;
    char           store[PATH_MAX], path[PATH_MAX], beside[PATH_MAX];
    struct err     err;         /* of the work: the worker thread uses these rows only */
    struct ids {
        int64_t *list;
        size_t   count;
    } filled;                   /* jobs whose events were written beside them */
};

/* ---- names ---- */

static bool is_name(const char *name)
{
    int y, m, d, end = 0;
    return sscanf(name, "jobs-%4d-%2d-%2d.db%n", &y, &m, &d, &end) == 3 && end > 0 && !name[end];
}

static int newest_first(const void *a, const void *b)
{
    return strcmp(b, a);
}

static int names_read(char names[NAMES][SNAPSHOT_NAME], const char *home)
{
    char path[PATH_MAX];
    int n = 0;
    snapshots_path(path, home, "");
    DIR *dir = opendir(path);
    for (struct dirent *e; n < NAMES && dir && (e = readdir(dir));)
        if (is_name(e->d_name))
            snprintf(names[n++], SNAPSHOT_NAME, "%.20s", e->d_name);
    if (dir)
        closedir(dir);
    qsort(names, (size_t)n, SNAPSHOT_NAME, newest_first);
    return n;
}

bool snapshots_name(char out[SNAPSHOT_NAME], const char *home, int age)
{
    char names[NAMES][SNAPSHOT_NAME];
    const int n = names_read(names, home);
    if (age < n)
        snprintf(out, SNAPSHOT_NAME, "%s", names[age]);
    return age < n;
}

void snapshots_path(char out[PATH_MAX], const char *home, const char *name)
{
    snprintf(out, PATH_MAX, "%.4000s/" FOLDER "/%s", home, name);
}

/* ---- making one ---- */

static void drop_old(const char *home)
{
    char names[NAMES][SNAPSHOT_NAME], path[PATH_MAX];
    const int n = names_read(names, home);
    for (int i = SNAPSHOTS_KEPT; i < n; i++) {
        snapshots_path(path, home, names[i]);
        unlink(path);
    }
}

struct filling {
    const char   *home;
    struct store *copy;
    struct ids   *filled;
};

static bool is_own(const struct filling *f, int64_t id, const struct job_history_end *end)
{
    char *yaml = NULL, *canonical = NULL;
    const bool own = jobs_spec(&yaml, &canonical, f->copy, id, NULL) == 0 && job_history_same(end, canonical);
    free(yaml);
    free(canonical);
    return own;
}

static int remember(struct ids *ids, int64_t id)
{
    int64_t *list = reallocarray(ids->list, ids->count + 1, sizeof(*list));
    if (!list)
        return -1;
    ids->list = list;
    ids->list[ids->count++] = id;
    return 0;
}

/* Events of a done job that its directory lacks, because the disk was full. */
static int fill_one(void *ctx, int64_t id, bool started, bool done)
{
    const struct filling *f = ctx;
    struct job_history_end end;
    struct job_row row;
    char dir[PATH_MAX];
    int64_t have = 0;
    snprintf(dir, sizeof(dir), "%.4000s/jobs/%lld", f->home, (long long)id);
    if (started && done && access(dir, F_OK) == 0 && jobs_get(&row, f->copy, id, NULL) == 0 &&
        (!job_history_end(&end, f->home, id) || end.seq < row.last_seq) && is_own(f, id, &end) &&
        remember(f->filled, id) == 0)
        job_history_write(&have, f->home, f->copy, id, NULL);
    return 0;
}

/* From the copy, so that the daemon's connection is not used here. */
static void fill_histories(struct snapshots *s)
{
    struct filling f = { .home = s->daemon->home, .filled = &s->filled };
    if (store_open(&f.copy, s->beside, NULL) == 0)
        jobs_ids(f.copy, fill_one, &f, NULL);
    store_close(f.copy);
}

static void work(uv_work_t *request)
{
    struct snapshots *s = request->data;
    if (rebuild_copy(s->store, s->beside, &s->err) < 0)
        return;
    fill_histories(s);
    if (rename(s->beside, s->path) < 0)
        err_set(&s->err, ERR_SYSTEM, "cannot write %s: %m", s->path);
    else
        drop_old(s->daemon->home);
}

/* A job that was removed meanwhile has nothing beside it. */
static void drop_filled(struct snapshots *s)
{
    char path[PATH_MAX];
    struct job_row row;
    for (size_t i = 0; i < s->filled.count; i++) {
        const int64_t id = s->filled.list[i];
        if (jobs_get(&row, s->daemon->store, id, NULL) == 0)
            continue;
        snprintf(path, sizeof(path), "%.4000s/jobs/%lld/" JOB_HISTORY, s->daemon->home, (long long)id);
        unlink(path);
        *strrchr(path, '/') = '\0';
        rmdir(path);            /* fails, as intended, unless it is empty */
    }
    free(s->filled.list);
    s->filled = (struct ids){ 0 };
}

static void worked(uv_work_t *request, int status)
{
    struct snapshots *s = request->data;
    s->busy = false;
    if (s->err.errnum == EUCLEAN)
        integrity_tell(s->err.text);        /* stops the daemon */
    else if (status == 0 && s->err.code != ERR_NONE)
        log_warn(NULL, "no copy of the store was made: %s", s->err.text);
    else if (status == 0)
        log_info(NULL, "copied the store to %s", s->path);
    drop_filled(s);
    if (s->daemon->stopping)
        snapshots_close(s->daemon);
}

/* Is there none of today, and something to copy? Sets the paths. */
static bool due(struct snapshots *s)
{
    const struct daemon *d = s->daemon;
    char name[SNAPSHOT_NAME], newest[SNAPSHOT_NAME];
    const time_t now = (time_t)(daemon_now_ms() / 1000);
    struct tm tm;
    gmtime_r(&now, &tm);
    snprintf(name, sizeof(name), PATTERN, (tm.tm_year + 1900) % 10000, (tm.tm_mon + 1) % 100, tm.tm_mday % 100);
    if (s->busy || d->next_id <= 1 || survey_needs_repair(d->survey) ||
        (snapshots_name(newest, d->home, 0) && strcmp(newest, name) >= 0))
        return false;
    snapshots_path(s->path, d->home, name);
    snapshots_path(s->beside, d->home, "new");
    snprintf(s->store, sizeof(s->store), "%.4000s/jobs.db", d->home);
    s->err = (struct err){ .code = ERR_NONE };
    return true;
}

static void look(uv_timer_t *timer)
{
    struct snapshots *s = timer->data;
    if (!due(s))
        return;
    s->busy = true;
    if (uv_queue_work(timer->loop, &s->work, work, worked) != 0)
        s->busy = false;
}

int snapshots_open(struct daemon *d, struct err *err)
{
    char folder[PATH_MAX];
    struct snapshots *s = calloc(1, sizeof(*s));
    if (!s)
        return err_set(err, ERR_MEMORY, "out of memory for the copies of the store");
    s->daemon = d;
    s->timer.data = s->work.data = s;
    d->snapshots = s;
    uv_timer_init(&d->loop, &s->timer);
    snapshots_path(folder, d->home, "");
    if (mkdir(folder, 0700) < 0 && errno != EEXIST)
        log_warn(NULL, "cannot create %s: %m", folder);
    if (!file_system_shared(d->home))
        return uv_timer_start(&s->timer, look, 0, LOOK_MS) == 0 ? 0 : err_set(err, ERR_BUG, "no timer");
    if (due(s)) {
        work(&s->work);
        worked(&s->work, 0);
    }
    return 0;
}

static void closed(uv_handle_t *timer)
{
    free(timer->data);
}

void snapshots_close(struct daemon *d)
{
    struct snapshots *s = d->snapshots;
    if (!s || s->busy)          /* its end closes */
        return;
    d->snapshots = NULL;
    uv_close((uv_handle_t *)&s->timer, closed);
}
