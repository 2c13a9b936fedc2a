/* SPDX-License-Identifier: Apache-2.0 */
/* removal.c - see removal.h */
#include "controller/lifecycle/removal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/os/log.h"
#include "agent/os/run_dir.h"
#include "engine/base/tree.h"
#include "controller/base/daemon.h"
#include "controller/base/file_work.h"
#include "controller/lifecycle/next_id.h"
#include "controller/lifecycle/reserve.h"
#include "controller/base/utc.h"
#include "controller/http/server.h"
#include "controller/job/active_jobs.h"
#include "controller/job/job.h"
#include "controller/job/job_code.h"
#include "controller/job/job_dir.h"
#include "controller/job/job_file.h"
#include "controller/nodes/fleet.h"
#include "controller/nodes/copy_removal.h"
#include "controller/nodes/orphan.h"
#include "db/checkpoints.h"
#include "db/removed.h"
#include "engine/base/clock.h"
#include "engine/base/dir_walk.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

#define CHECKPOINTS "checkpoints"

/* An agent that got its final ack needs a moment to exit. */
enum { AGENT_TRIES = 200, AGENT_PAUSE_MS = 50, PATIENCE_MS = 60000 };

/* The thread accesses this structure only, but not the daemon. */
struct removal {
    struct file_task   base;
    struct daemon     *daemon;
    struct removed_row row;
    char               dir[PATH_MAX];   /* jobs/<id> */
    char               home[PATH_MAX];
    atomic_bool        stop;
    struct err         err;
    struct removal    *next;
};

/* ---- may the job be removed? ---- */

static int check_after(const struct daemon *d, int64_t id, struct err *err)
{
    const struct job *job = fleet_dependent(d, id);
    return !job ? 0 : err_set(err, ERR_CONFLICT, "job %lld (%s) depends on job %lld and is not done; cancel it, "
                              "or remove job %lld later", (long long)job->core.id, job->spec.name, (long long)id,
                              (long long)id);
}

struct mention {
    const char *prefix;     /* as JSON text: "/home/jobs/3/ */
    bool        checkpoints;
    int64_t     by;
};

/* True if a path in the spec lies in a directory to be deleted. */
static int look_for_mention(void *ctx, int64_t id, const char *canonical)
{
    struct mention *m = ctx;
    const size_t n = strlen(m->prefix), c = strlen(CHECKPOINTS);
    for (const char *at = canonical; (at = strstr(at, m->prefix)); at += n) {
        const bool kept = strncmp(at + n, CHECKPOINTS, c) == 0 && strchr("/\"", at[n + c]);
        if (kept && !m->checkpoints)
            continue;
        m->by = id;
        return 1;
    }
    return 0;
}

/* A retried job passes its checkpoints to the next one, whose spec names their directory. */
static int check_mentions(struct daemon *d, int64_t id, const char *dir, bool checkpoints, struct err *err)
{
    char quoted[PATH_MAX + 2];
    json_t *text = json_text(dir);
    const size_t n = text ? json_dumpb(text, quoted, sizeof(quoted), JSON_ENCODE_ANY) : 0;
    json_decref(text);
    if (n == 0 || n > sizeof(quoted) - 1)
        return err_set(err, ERR_MEMORY, "out of memory while removing job %lld", (long long)id);
    quoted[n - 1] = '/';                /* instead of the closing quote */
    quoted[n] = '\0';
    struct mention m = { .prefix = quoted, .checkpoints = checkpoints };
    int rc = jobs_that_mention(d->store, id, look_for_mention, &m, err);
    if (rc <= 0)
        return rc;
    return err_set(err, ERR_CONFLICT, "job %lld uses files in %s: %s", (long long)m.by, dir,
                   checkpoints ? "remove that job first, or omit --checkpoints"
                               : "remove that job first");
}

/* Members are removed when all are done: no index starts twice. */
static int check_sweep(const struct daemon *d, int64_t id, struct err *err)
{
    struct job_row row;
    if (jobs_get(&row, d->store, id, err) < 0)
        return -1;
    if (row.sweep > 0 && active_jobs_find(d->active_jobs, row.sweep))
        return err_set(err, ERR_CONFLICT, "job %lld is a member of sweep %lld, which is not done; remove it later",
                       (long long)id, (long long)row.sweep);
    return 0;
}

static int check_allowed(struct daemon *d, int64_t id, const char *dir, bool checkpoints, struct err *err)
{
    const struct job *job = active_jobs_find(d->active_jobs, id);
    const char *host = orphan_of(d, id);
    if (job)
        return err_set(err, ERR_CONFLICT, "job %lld is %s; only done jobs can be removed. Stop it "
                       "first: jobctl cancel %lld", (long long)id, job_state_name(job->core.state),
                       (long long)id);
    if (host)
        return err_set(err, ERR_CONFLICT, "an agent of job %lld may still run on %s; the daemon "
                       "keeps trying to end it", (long long)id, host);
    if (check_after(d, id, err) < 0 || check_sweep(d, id, err) < 0)
        return -1;
    return check_mentions(d, id, dir, checkpoints, err);
}

/* ---- what would be deleted ---- */

static int any(void *ctx, const struct checkpoint_row *row)
{
    (void)ctx;
    (void)row;
    return 1;
}

/* Its spec's checkpoint.dir; "": none. -1 after setting *err. */
static int given_dir(char *out, size_t size, int64_t id, const char *canonical, const char *own, struct err *err)
{
    char usual[PATH_MAX + 32];
    snprintf(usual, sizeof(usual), "\"dir\":\"%s\"", own);
    if (strstr(canonical, usual)) {     /* as in most jobs; parsing all specs would take prune seconds */
        snprintf(out, size, "%s", own);
        return 0;
    }
    json_t *spec = json_loads(canonical, 0, NULL);
    const char *dir = field_text(json_object_get(spec, "checkpoint"), "dir");
    snprintf(out, size, "%s", strcmp(dir, "auto") == 0 ? own : dir);     /* auto: of a sweep, which has none */
    if (!spec)
        err_set(err, ERR_DATA, "the stored spec of job %lld is not JSON", (long long)id);
    json_decref(spec);
    return spec ? 0 : -1;
}

/* Its checkpoint directory: inside its own, or the one in the spec. */
static int find_checkpoints(struct removed_row *row, struct daemon *d, const char *canonical, const char *dir,
                            struct err *err)
{
    char own[PATH_MAX + 16], given[PATH_MAX + 16];
    snprintf(own, sizeof(own), "%s/" CHECKPOINTS, dir);
    if (given_dir(given, sizeof(given), row->job, canonical, own, err) < 0)
        return -1;
    const bool ours = !given[0] || strcmp(given, own) == 0;
    const int wrote = ours ? 0 : checkpoints_each(d->store, row->job, 1, any, NULL, err);
    row->checkpoint_bytes = ours ? 0 : -1;      /* ours: removal_measure() */
    if (wrote > 0 || ours)
        snprintf(row->checkpoints, sizeof(row->checkpoints), "%.*s", REMOVED_PATH - 1, ours ? own : given);
    row->kept = row->kept || !ours;
    return wrote < 0 ? -1 : 0;
}

int removal_plan_rows(struct removed_row *row, struct daemon *d, int64_t id, const char *name, const char *canonical,
                      bool checkpoints, struct err *err)
{
    char dir[PATH_MAX];
    job_dir(dir, sizeof(dir), d, id);
    if (check_allowed(d, id, dir, checkpoints, err) < 0)
        return -1;
    *row = (struct removed_row){ .job = id, .removed_ms = daemon_now_ms(), .kept = !checkpoints };
    snprintf(row->name, sizeof(row->name), "%s", name);
    return find_checkpoints(row, d, canonical, dir, err);
}

int removal_check_members(struct daemon *d, int64_t id, struct err *err)
{
    struct jobs_members m;
    if (jobs_members_count(&m, d->store, id, err) < 0)
        return -1;
    return m.started == 0 ? 0 : err_set(err, ERR_CONFLICT, "job %lld is a sweep, and %lld of its members are still "
                                        "there; remove those first", (long long)id, (long long)m.started);
}

/* True for a directory without a checkpoint, for which a file system may still count a block. */
static bool is_empty(int at, const char *name)
{
    const int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *e;
    const bool empty = d && dir_walk_next(&e, d, name, NULL) == 0;
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
    return empty;
}

void removal_count(int64_t *all, int64_t *checkpoints, const char *dir)
{
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    *all = *checkpoints = 0;
    if (fd < 0)
        return;
    *checkpoints = is_empty(fd, CHECKPOINTS) ? 0 : tree_bytes(fd, CHECKPOINTS);
    *all = tree_bytes(fd, ".");
    close(fd);
}

void removal_set_sizes(struct removed_row *row, int64_t all, int64_t checkpoints)
{
    const bool ours = row->checkpoint_bytes >= 0;
    row->bytes = all - (ours ? checkpoints : 0);
    if (ours)
        row->checkpoint_bytes = checkpoints;
    if (ours && checkpoints == 0)
        row->checkpoints[0] = '\0';     /* it wrote none */
}

void removal_measure(struct removed_row *row, const char *dir)
{
    int64_t all, checkpoints;
    removal_count(&all, &checkpoints, dir);
    removal_set_sizes(row, all, checkpoints);
}

int removal_plan(struct removed_row *row, struct daemon *d, int64_t id, bool checkpoints, struct err *err)
{
    char *yaml = NULL, *canonical = NULL;
    struct job_row job;
    if (jobs_get(&job, d->store, id, err) < 0 || jobs_spec(&yaml, &canonical, d->store, id, err) < 0)
        return -1;
    int rc = removal_plan_rows(row, d, id, job.name, canonical, checkpoints, err);
    if (rc == 0 && !job.result[0])
        rc = err_set(err, ERR_CONFLICT, "job %lld is not done", (long long)id);
    free(yaml);
    free(canonical);
    return rc;
}

json_t *removal_json(const struct removed_row *row, const struct daemon *d, bool removed)
{
    char dir[PATH_MAX];
    job_dir(dir, sizeof(dir), d, row->job);
    json_t *checkpoints = json_null();
    if (row->checkpoints[0])
        checkpoints = json_make("{s:s, s:o, s:b}", "dir", row->checkpoints, "bytes",
                                row->checkpoint_bytes < 0 ? json_null()
                                                          : json_integer(row->checkpoint_bytes),
                                "kept", (int)row->kept);
    return json_make(
        "{s:I, s:s, s:s, s:I, s:o, s:o, s:b}", "id", (json_int_t)row->job, "name", row->name, "dir",
        dir, "bytes", (json_int_t)row->bytes, "checkpoints", checkpoints, "removed_at",
        removed ? utc_json(row->removed_ms) : json_null(), "pending", (int)(removed && row->pending));
}

/* ---- delete ---- */

static bool is_attempt(int fd, const char *name)
{
    struct stat st;
    return !name[strspn(name, "0123456789")] && fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(st.st_mode);
}

/* Takes an attempt's lock while its directory is deleted: no agent runs or starts there. */
static int hold(struct removal *r, const char *name)
{
    char path[PATH_MAX + 300];
    snprintf(path, sizeof(path), "%s/%s", r->dir, name);
    for (int tries = 0;; tries++) {
        struct err err = { .code = ERR_NONE };
        int lock = run_dir_lock(path, &err);
        if (lock >= 0)
            return lock;
        if (err.code != ERR_CONFLICT || tries == AGENT_TRIES || r->stop)
            return err_set(&r->err, err.code, "%s", err.text);
        clock_wait(-1, AGENT_PAUSE_MS);
    }
}

static void remove_entry(struct removal *r, int fd, const char *name)
{
    int lock = -1;
    if (is_attempt(fd, name) && (lock = hold(r, name)) < 0)
        return;
    tree_remove(fd, name, &r->err);
    if (lock >= 0)
        close(lock);
}

/* Deletes jobs/<id> except checkpoints to keep; job.json first, because a daemon that lost its store would take the job
 * over from it. */
static void empty(struct removal *r, int fd)
{
    struct dirent *e;
    if (unlinkat(fd, JOB_FILE, 0) < 0 && errno != ENOENT)
        err_set(&r->err, ERR_SYSTEM, "cannot remove %s/" JOB_FILE ": %m", r->dir);
    DIR *d = fdopendir(fd);
    while (!r->stop && dir_walk_next(&e, d, r->dir, &r->err) > 0) {
        if (r->row.kept && strcmp(e->d_name, CHECKPOINTS) == 0)
            unlinkat(fd, CHECKPOINTS, AT_REMOVEDIR);    /* fails, as intended, unless empty */
        else
            remove_entry(r, fd, e->d_name);
    }
    if (d)
        closedir(d);
    else
        close(fd);
}

/* A directory that remains is an error unless it has only kept checkpoints: it contains what could not be listed. */
static bool is_left_rightly(const struct removal *r)
{
    return r->row.kept && (errno == ENOTEMPTY || errno == EEXIST);
}

static void work(struct file_task *task)
{
    struct removal *r = (struct removal *)task;
    job_code_loosen(r->dir);
    int fd = open(r->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        empty(r, fd);
    else if (errno == ELOOP || errno == ENOTDIR)
        unlink(r->dir);                     /* a link or a file: delete it, not its target */
    else if (errno != ENOENT)
        err_set(&r->err, ERR_SYSTEM, "cannot open %s: %m", r->dir);
    if (rmdir(r->dir) < 0 && errno != ENOENT && !is_left_rightly(r))
        err_set(&r->err, ERR_SYSTEM, "cannot remove %s: %m", r->dir);
    if (r->stop)
        err_set(&r->err, ERR_CONFLICT, "the daemon stopped meanwhile");
    job_code_collect(r->home);
}

static void destroy(struct file_task *task)
{
    free(task);
}

static void worked(struct file_task *task)
{
    struct removal *r = (struct removal *)task, **at = &r->daemon->removals;
    struct daemon *d = r->daemon;
    const int64_t id = r->row.job;
    char tag[24];
    snprintf(tag, sizeof(tag), "%lld", (long long)id);
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    if (r->err.code == ERR_NONE && removed_done(d->store, id, &r->err) == 0)
        log_info(tag, "removed");
    else
        log_warn(tag, "removed, but some files remain; the daemon tries again at its next start: %s", r->err.text);
    server_wake(d->server, id);
    free(r);
}

/* The file system hangs: the files remain until it responds, or until the daemon's next start. */
static void late(struct file_task *task)
{
    const struct removal *r = (const struct removal *)task;
    struct err err = { 0 };
    char tag[24];
    snprintf(tag, sizeof(tag), "%lld", (long long)r->row.job);
    file_work_why(r->daemon->deletions, task, &err);
    log_info(tag, "%s", err.text);
}

static int start(struct daemon *d, const struct removed_row *row, struct err *err)
{
    char lane[24], what[PATH_MAX + 16];
    struct removal *r = calloc(1, sizeof(*r));
    if (!r)
        return err_set(err, ERR_MEMORY, "out of memory while removing job %lld", (long long)row->job);
    r->daemon = d;
    r->row = *row;
    r->base = (struct file_task){ work, worked, late, destroy, .patience_ms = PATIENCE_MS };
    job_dir(r->dir, sizeof(r->dir), d, row->job);
    snprintf(r->home, sizeof(r->home), "%.*s", PATH_MAX - 1, d->home.path);
    snprintf(lane, sizeof(lane), "%lld", (long long)row->job);
    snprintf(what, sizeof(what), "deleting %s", r->dir);
    if (file_work_begin(d->deletions, &r->base, lane, what, err) < 0) {
        free(r);
        return -1;
    }
    r->next = d->removals;
    d->removals = r;
    return 0;
}

int removal_begin(struct daemon *d, const struct removed_row *row, struct err *err)
{
    struct err why = { 0 };
    if (copy_removal_record(d, row->job, &why) < 0)
        log_warn(NULL, "job %lld: the copies of its code on hosts remain: %s", (long long)row->job, why.text);
    why = (struct err){ 0 };
    if (next_id_keep(d->home.path, d->next_id, &why) < 0)
        log_warn(NULL, "%s", why.text);     /* the disk may be full, and a removal makes room */
    why = (struct err){ 0 };
    if (removed_put(d->store, row, &why) < 0 && (!reserve_use(&d->home, &why) || removed_put(d->store, row, err) < 0)) {
        *err = err->code ? *err : why;
        reserve_explain(&d->home, err);
        return -1;
    }
    daemon_test_hook(d);
    copy_removal_begin(d, row->job);
    return start(d, row, err);
}

bool removal_runs(const struct daemon *d, int64_t id)
{
    for (const struct removal *r = d->removals; r; r = r->next)
        if (r->row.job == id)
            return true;
    return false;
}

struct opening {
    struct daemon *daemon;
    struct err    *err;
};

static int go_on(void *ctx, const struct removed_row *row)
{
    const struct opening *o = ctx;
    return start(o->daemon, row, o->err);
}

int removal_open(struct daemon *d, struct err *err)
{
    if (!(d->deletions = file_work_open(&d->loop, FILE_WORK_PATIENCE_MS, err)))
        return -1;
    return removed_each_pending(d->store, go_on, &(struct opening){ d, err }, err) < 0 ? -1 : 0;
}

void removal_close(struct daemon *d)
{
    for (struct removal *r = d->removals; r; r = r->next)
        r->stop = true;
    d->removals = NULL;
    file_work_close(d->deletions);
}
