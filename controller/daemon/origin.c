/* SPDX-License-Identifier: Apache-2.0 */
/* origin.c - see origin.h */
#include "controller/daemon/origin.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "agent/os/log.h"
#include "controller/base/daemon.h"
#include "controller/base/file_work.h"
#include "controller/job/job_dir.h"
#include "controller/job/job_history.h"
#include "controller/job/job_store.h"
#include "db/checkpoints.h"
#include "db/jobs.h"
#include "engine/contract/err.h"
#include "engine/contract/field.h"
#include "engine/contract/json_text.h"
#include "engine/contract/lineage_file.h"
#include "engine/contract/safe_open.h"

int origin_give(json_t *checkpoint, struct err *err)
{
    unsigned char bits[16];
    char text[2 * sizeof(bits) + 1];
    if (field_text(checkpoint, "origin")[0])
        return 0;
    if (getrandom(bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
        return err_set(err, ERR_SYSTEM, "cannot get random numbers for the job's origin");
    for (size_t i = 0; i < sizeof(bits); i++)
        snprintf(text + 2 * i, 3, "%02x", bits[i]);
    return json_object_set_new(checkpoint, "origin", json_text(text));
}

/* Is spec.json that of the row? A job that has not started may have none. */
static bool agrees(const json_t *spec, const char *path)
{
    if (access(path, F_OK) < 0)
        return true;
    json_t *theirs = safe_open_json(path, 0, NULL);
    const bool same = json_equal(theirs, spec);
    json_decref(theirs);
    return same;
}

static int write_again(const struct daemon *d, int64_t id, const char *path, struct err *err)
{
    struct job_dir_files files;
    if (unlink(path) < 0)
        return err_set(err, ERR_SYSTEM, "cannot replace %s: %m", path);
    int rc = job_dir_files_init(&files, d, id, err);
    if (rc == 0) {
        rc = job_dir_files_write(&files, err);
        job_dir_files_fini(&files);
    }
    return rc;
}

static int upgrade(struct daemon *d, int64_t id, json_t *spec, const char *path, struct err *err)
{
    if (origin_give(json_object_get(spec, "checkpoint"), err) < 0)
        return -1;
    char *canonical = json_dumps(spec, JSON_COMPACT);
    int rc = canonical ? jobs_set_spec(d->store, id, canonical, err)
                       : err_set(err, ERR_MEMORY, "out of memory for the spec of job %lld", (long long)id);
    free(canonical);
    return rc == 0 && access(path, F_OK) == 0 ? write_again(d, id, path, err) : rc;
}

/* ---- files that may be slow to reach: threads look at them, a job after the other ---- */

enum { ORIGIN = 2 * 16 + 1 };

struct upgrade {
    struct file_task base;              /* owner: the daemon */
    int64_t          id;
    json_t          *spec;              /* of a done job, compared with its directory; NULL: root is written */
    bool             same;
    char             path[PATH_MAX + 16], root[PATH_MAX], origin[ORIGIN];
    struct err       err;
    int64_t         *rest;              /* done jobs that follow */
    size_t           count;
};

static void upgrade_destroy(struct file_task *task)
{
    struct upgrade *u = (struct upgrade *)task;
    json_decref(u->spec);
    free(u->rest);
    free(u);
}

static void begin(struct upgrade *u, const char *what)
{
    struct err err = { 0 };
    struct daemon *d = u->base.owner;
    u->base.destroy = upgrade_destroy;
    if (file_work_begin(d->files, &u->base, "origins", what, &err) == 0)
        return;
    log_warn(NULL, "job %lld gets no origin: %s", (long long)u->id, err.text);
    upgrade_destroy(&u->base);
}

/* The directory of its newest checkpoint. */
static int newest_root(void *ctx, const struct checkpoint_row *row)
{
    struct upgrade *u = ctx;
    const char *name = strrchr(row->path, '/');
    if (strcmp(row->trust, "written") != 0 || !name || name == row->path ||
        (size_t)(name - row->path) >= sizeof(u->root))
        return 0;
    snprintf(u->root, sizeof(u->root), "%.*s", (int)(name - row->path), row->path);
    return 1;
}

static struct upgrade *upgrade_of(struct daemon *d, int64_t id)
{
    char dir[PATH_MAX];
    struct upgrade *u = calloc(1, sizeof(*u));
    if (!u)
        return NULL;
    u->base.owner = d;
    u->id = id;
    job_dir(dir, sizeof(dir), d, id);
    snprintf(u->path, sizeof(u->path), "%s/spec.json", dir);
    checkpoints_each(d->store, id, 16, newest_root, u, NULL);
    return u;
}

/* The origin of checkpoints that have none themselves. */
static bool root_read(char origin[ORIGIN], const char *root)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof(path), "%s/" LINEAGE_FILE, root);
    json_t *all = safe_open_json(path, 0, NULL);
    snprintf(origin, ORIGIN, "%s", field_text(all, "origin"));
    json_decref(all);
    return origin[0];
}

static void root_write(struct file_task *task)
{
    struct upgrade *u = (struct upgrade *)task;
    char path[PATH_MAX + 16], known[ORIGIN], text[64];
    snprintf(path, sizeof(path), "%s/" LINEAGE_FILE, u->root);
    if (access(u->root, F_OK) < 0 || root_read(known, u->root)) {
        if (access(u->root, F_OK) == 0 && strcmp(known, u->origin) != 0)
            err_set(&u->err, ERR_CONFLICT, "checkpoints in %s are of an earlier version, and taken for those of another job "
                    "that wrote there", u->root);
        return;
    }
    const int n = snprintf(text, sizeof(text), "{\"origin\":\"%s\"}\n", u->origin);
    const int fd = safe_open(path, O_WRONLY | O_CREAT | O_TRUNC, &u->err);
    if (fd >= 0 && write(fd, text, (size_t)n) != n)
        err_set(&u->err, ERR_SYSTEM, "cannot write %s: %m", path);
    if (fd >= 0)
        close(fd);
}

static void next_done(struct daemon *d, int64_t *ids, size_t count);

static void go_on(struct upgrade *u)
{
    int64_t *rest = u->rest;
    u->rest = NULL;
    if (u->err.code != ERR_NONE)
        log_warn(NULL, "job %lld: %s", (long long)u->id, u->err.text);
    next_done(u->base.owner, rest, u->count);
    upgrade_destroy(&u->base);
}

static void root_done(struct file_task *task)
{
    go_on((struct upgrade *)task);
}

static void begin_root(struct upgrade *u)
{
    u->base.work = root_write;
    u->base.done = root_done;
    if (u->root[0])
        begin(u, "writing the origin of checkpoints");
    else
        go_on(u);
}

/* ---- unfinished jobs ---- */

static void refuse(int64_t id, const char *path)
{
    log_warn(NULL, "job %lld is of an earlier version, and %s is not its spec: the job gets no origin, so its "
             "checkpoints cannot be distinguished from those of another job", (long long)id, path);
}

static int give(struct upgrade *u, json_t *spec, struct err *err)
{
    if (upgrade(u->base.owner, u->id, spec, u->path, err) < 0)
        return -1;
    snprintf(u->origin, sizeof(u->origin), "%s", field_text(json_object_get(spec, "checkpoint"), "origin"));
    return 0;
}

void origin_upgrade(struct daemon *d, int64_t id)
{
    struct err err = { 0 };
    json_t *spec = job_store_spec(d->store, id, &err);
    json_t *checkpoint = json_object_get(spec, "checkpoint");
    struct upgrade *u = json_is_object(checkpoint) && !field_text(checkpoint, "origin")[0] ? upgrade_of(d, id) : NULL;
    if (u && !agrees(spec, u->path))
        refuse(id, u->path);
    else if (u && give(u, spec, &err) < 0)
        log_warn(NULL, "job %lld gets no origin: %s", (long long)id, err.text);
    else if (u)
        begin_root(u), u = NULL;
    if (u)
        upgrade_destroy(&u->base);
    json_decref(spec);
}

/* ---- done jobs ---- */

bool origin_absent(const char *canonical)
{
    return strstr(canonical, "\"checkpoint\":{") && !strstr(canonical, "\"origin\":\"");
}

static void compare_work(struct file_task *task)
{
    struct upgrade *u = (struct upgrade *)task;
    u->same = agrees(u->spec, u->path);
    if (u->root[0])
        root_read(u->origin, u->root);
}

static void compare_done(struct file_task *task)
{
    struct upgrade *u = (struct upgrade *)task;
    struct daemon *d = u->base.owner;
    json_t *spec = u->spec, *checkpoint = json_object_get(spec, "checkpoint");
    int64_t have = 0;
    u->spec = NULL;
    if (u->same && u->origin[0])        /* of a job that continued it, or that it continued */
        json_object_set_new(checkpoint, "origin", json_text(u->origin));
    if (!u->same)
        refuse(u->id, u->path);
    else if (give(u, spec, &u->err) == 0 && access(u->path, F_OK) == 0)
        job_history_write(&have, d->home, d->store, u->id, &u->err);
    json_decref(spec);
    if (u->same && u->err.code == ERR_NONE)
        begin_root(u);
    else
        go_on(u);
}

static void next_done(struct daemon *d, int64_t *ids, size_t count)
{
    struct upgrade *u = NULL;
    while (count > 0 && !u) {
        const int64_t id = ids[--count];
        json_t *spec = job_store_spec(d->store, id, NULL);
        const json_t *checkpoint = json_object_get(spec, "checkpoint");
        if (json_is_object(checkpoint) && !field_text(checkpoint, "origin")[0] && (u = upgrade_of(d, id)))
            u->spec = json_incref(spec);
        json_decref(spec);
    }
    if (!u) {
        free(ids);
        return;
    }
    u->rest = ids;
    u->count = count;
    u->base.work = compare_work;
    u->base.done = compare_done;
    begin(u, "comparing the specs of done jobs");
}

void origin_upgrade_done(struct daemon *d, int64_t *ids, size_t count)
{
    if (count > 0)
        log_info(NULL, "%zu done jobs are of an earlier version: they get an origin", count);
    next_done(d, ids, count);
}
