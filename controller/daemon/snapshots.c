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
#include "controller/daemon/replay.h"
#include "controller/daemon/takeover.h"
#include "db/integrity.h"
#include "db/store.h"
#include "db/store_copy.h"
#include "engine/base/err.h"

#define FOLDER "snapshots"
#define STORE "jobs.db"
#define PATTERN "jobs-%04d-%02d-%02d.db"

enum { LOOK_MS = 60 * 60 * 1000, NAMES = 64, SNAPSHOT_NAME = 24, KEPT = 3, STOP_BYTES = 64 << 20 };

struct snapshots {
    struct daemon *daemon;
    uv_timer_t     timer;
    uv_work_t      work;
    bool           busy;
    char           path[PATH_MAX];
    struct err     err;         /* of the work: the worker thread uses these rows only */
};

/* ---- names ---- */

static void path_in(char out[PATH_MAX], const char *home, const char *name)
{
    snprintf(out, PATH_MAX, "%.4000s/" FOLDER "/%s", home, name);
}

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
    path_in(path, home, "");
    DIR *dir = opendir(path);
    for (struct dirent *e; n < NAMES && dir && (e = readdir(dir));)
        if (is_name(e->d_name))
            snprintf(names[n++], SNAPSHOT_NAME, "%.20s", e->d_name);
    if (dir)
        closedir(dir);
    qsort(names, (size_t)n, SNAPSHOT_NAME, newest_first);
    return n;
}

/* The newest one (age 0), the one before (1), ... */
static bool name_of(char out[SNAPSHOT_NAME], const char *home, int age)
{
    char names[NAMES][SNAPSHOT_NAME];
    const int n = names_read(names, home);
    if (age < n)
        snprintf(out, SNAPSHOT_NAME, "%s", names[age]);
    return age < n;
}

/* ---- making one ---- */

static void drop_old(const char *home)
{
    char names[NAMES][SNAPSHOT_NAME], path[PATH_MAX];
    const int n = names_read(names, home);
    for (int i = KEPT; i < n; i++) {
        path_in(path, home, names[i]);
        unlink(path);
    }
}

/* Copies a whole store to `path`, replacing an existing file. */
static int copy(const char *home, const char *path, struct err *err)
{
    char store[PATH_MAX], beside[PATH_MAX];
    snprintf(store, sizeof(store), "%.4000s/" STORE, home);
    path_in(beside, home, "new");
    if (store_copy(store, beside, err) < 0)
        return -1;
    if (rename(beside, path) < 0)
        return err_set(err, ERR_SYSTEM, "cannot write %s: %m", path);
    drop_old(home);
    return 0;
}

static void work(uv_work_t *request)
{
    struct snapshots *s = request->data;
    copy(s->daemon->home.path, s->path, &s->err);
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
    if (s->daemon->stopping)
        snapshots_close(s->daemon);
}

static void path_of_today(char path[PATH_MAX], char name[SNAPSHOT_NAME], const char *home)
{
    const time_t now = (time_t)(daemon_now_ms() / 1000);
    struct tm tm;
    gmtime_r(&now, &tm);
    snprintf(name, SNAPSHOT_NAME, PATTERN, (tm.tm_year + 1900) % 10000, (tm.tm_mon + 1) % 100, tm.tm_mday % 100);
    path_in(path, home, name);
}

/* True if there is no copy of today, and something to copy. Sets the path. */
static bool due(struct snapshots *s)
{
    const struct daemon *d = s->daemon;
    char name[SNAPSHOT_NAME], newest[SNAPSHOT_NAME];
    path_of_today(s->path, name, d->home.path);
    if (s->busy || d->next_id <= 1 || (name_of(newest, d->home.path, 0) && strcmp(newest, name) >= 0))
        return false;
    s->err = (struct err){ .code = ERR_NONE };
    return true;
}

static void look(uv_timer_t *timer)
{
    struct snapshots *s = timer->data;
    takeover_refresh(s->daemon, replay_job);
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
    path_in(folder, d->home.path, "");
    if (mkdir(folder, 0700) < 0 && errno != EEXIST)
        log_warn(NULL, "cannot create %s: %m", folder);
    if (!file_system_shared(d->home.path))
        return uv_timer_start(&s->timer, look, 0, LOOK_MS) == 0 ? 0 : err_set(err, ERR_BUG, "no timer");
    takeover_refresh(d, replay_job);
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

void snapshots_at_stop(const struct daemon *d)
{
    char path[PATH_MAX], name[SNAPSHOT_NAME];
    struct stat st;
    struct err err = { 0 };
    snprintf(path, sizeof(path), "%.4000s/" STORE, d->home.path);
    if (d->next_id <= 1 || stat(path, &st) < 0 || st.st_size > STOP_BYTES)
        return;
    path_of_today(path, name, d->home.path);
    if (copy(d->home.path, path, &err) < 0)
        log_warn(NULL, "no copy of the store was made: %s", err.text);
}

/* ---- the way back ---- */

/* The log first: a log must never end up beside another store. */
static int move_aside(char dir[PATH_MAX], const char *home, struct err *err)
{
    static const char *const names[] = { STORE "-wal", STORE "-shm", STORE "-journal", STORE };
    char from[PATH_MAX], to[PATH_MAX];
    snprintf(dir, PATH_MAX, "%.3900s/store-damaged-%lld", home, (long long)daemon_now_ms());
    if (mkdir(dir, 0700) < 0)
        return err_set(err, ERR_SYSTEM, "cannot create %s: %m", dir);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(from, sizeof(from), "%.3900s/%s", home, names[i]);
        snprintf(to, sizeof(to), "%.3950s/%s", dir, names[i]);
        if (rename(from, to) < 0 && errno != ENOENT)
            return err_set(err, ERR_SYSTEM, "cannot move %s to %s: %m", from, to);
    }
    const bool kept = access(to, F_OK) == 0;
    rmdir(dir);                 /* if it is empty */
    if (!kept)
        dir[0] = '\0';          /* there was no store, at most its log of writes */
    return 0;
}

/* Puts back the newest sound copy of this version; false: there is none. */
static bool put_back(char name[SNAPSHOT_NAME], const char *home)
{
    char from[PATH_MAX], to[PATH_MAX];
    snprintf(to, sizeof(to), "%.4000s/" STORE, home);
    for (int age = 0; name_of(name, home, age); age++) {
        struct store *s = NULL;
        struct err bad = { 0 };
        path_in(from, home, name);
        const bool good = store_copy(from, to, &bad) == 0 && store_open(&s, to, &bad) == 0;
        store_close(s);
        if (good)
            return true;
        log_warn(NULL, "the copy %s of the store cannot be used: %s", from, bad.text);
        unlink(to);
    }
    return false;
}

int snapshots_restore(struct daemon_store_state *state, const char *home, struct err *err)
{
    char dir[PATH_MAX], name[SNAPSHOT_NAME];
    if (move_aside(dir, home, err) < 0)
        return -1;
    state->restored = put_back(name, home);
    state->is_new = !state->restored && !dir[0];
    snprintf(state->lost, sizeof(state->lost), "the store was %s%.400s%s%s",
             dir[0] ? "damaged, and is kept in " : "lost", dir,
             state->restored ? "; it was replaced by its copy " : "; there is no copy of it",
             state->restored ? name : "");
    return 0;
}
