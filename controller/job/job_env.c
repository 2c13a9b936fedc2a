/* SPDX-License-Identifier: Apache-2.0 */
/* job_env.c - see job_env.h */
#include "controller/job/job_env.h"

#include <dirent.h>
#include <limits.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/core/submit_env.h"
#include "agent/os/env_file.h"
#include "controller/base/daemon.h"
#include "controller/job/job.h"
#include "controller/job/job_dir.h"
#include "controller/job/job_file.h"
#include "db/jobs.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"

#define CLEAN_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* ---- what a job takes ---- */

/* Without copying: iterating does not change it. */
static json_t *items(const json_t *object)
{
    return (json_t *)(uintptr_t)object;
}

static bool lists(const json_t *names, const char *name)
{
    size_t i;
    const json_t *one;
    json_array_foreach (names, i, one)
        if (strcmp(json_string_value(one), name) == 0)
            return true;
    return false;
}

/* The value goes into one file, the name into the other. */
static int put_secret(struct job_env *e, const char *name, const char *value)
{
    return env_file_put(&e->open, name, NULL) < 0 || (value && env_file_put(&e->secret, name, value) < 0) ? -1 : 0;
}

static int take_named(struct job_env *e, const struct job_env_source *from, struct err *err)
{
    size_t i;
    const json_t *one;
    json_array_foreach (json_object_get(from->spec, "secrets"), i, one) {
        const char *name = json_string_value(one), *value = json_string_value(json_object_get(from->secrets, name));
        if (!value)
            return err_set(err, ERR_USAGE, "secrets: %s is not set in the environment of the submitting command", name);
        if (put_secret(e, name, value) < 0)
            return err_set(err, ERR_MEMORY, "out of memory for a job");
    }
    return 0;
}

/* The environment of a login without a shell: the same wherever and whenever the job is submitted. */
static int take_clean(struct job_env *e)
{
    const struct passwd *me = getpwuid(getuid());
    const char *const entries[][2] = {
        {"PATH", CLEAN_PATH}, {"LANG", "C.UTF-8"}, {"HOME", me ? me->pw_dir : getenv("HOME")},
        {"USER", me ? me->pw_name : NULL}, {"LOGNAME", me ? me->pw_name : NULL}, {"SHELL", me ? me->pw_shell : NULL},
    };
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
        if (entries[i][1] && env_file_put(&e->open, entries[i][0], entries[i][1]) < 0)
            return -1;
    return 0;
}

static int take_submitted(struct job_env *e, const struct job_env_source *from)
{
    const bool in_job = submit_env_in_job(from->environment);
    const char *name;
    json_t *value;
    json_object_foreach (items(from->environment), name, value) {
        const enum submit_env_fate fate = submit_env_fate(name, in_job, NULL);
        const char *text = json_string_value(value);
        if (fate == SUBMIT_ENV_LEFT || !text || lists(json_object_get(from->spec, "secrets"), name))
            continue;
        if ((fate == SUBMIT_ENV_SECRET ? put_secret(e, name, text) : env_file_put(&e->open, name, text)) < 0)
            return -1;
    }
    return 0;
}

/* The older job's environment. Its secrets were deleted with the job, so they come from the user who retries it. */
static int take_older(struct job_env *e, const struct job_env_source *from)
{
    for (const char *at = NULL; (at = env_file_next(from->older, at));) {
        if (strchr(at, '=')) {
            if (buf_append(&e->open, at, strlen(at) + 1) < 0)
                return -1;
        } else if (!lists(json_object_get(from->spec, "secrets"), at) &&
                   put_secret(e, at, json_string_value(json_object_get(from->secrets, at))) < 0) {
            return -1;
        }
    }
    return 0;
}

static int take_all(struct job_env *e, const struct job_env_source *from)
{
    if (from->host)
        return 0;
    if (from->older)
        return take_older(e, from);
    if (strcmp(field_text(from->spec, "env_from"), "clean") == 0 || !from->environment)
        return take_clean(e);
    return take_submitted(e, from);
}

static int check(const struct job_env *e, struct err *err)
{
    json_t *open = env_file_values(&e->open), *secret = env_file_values(&e->secret);
    int rc = open && secret ? submit_env_check(open, secret, err) : err_set(err, ERR_MEMORY, "out of memory for a job");
    json_decref(open);
    json_decref(secret);
    return rc;
}

int job_env_init(struct job_env *e, const struct job_env_source *from, struct err *err)
{
    *e = (struct job_env){ .open = { .data = NULL } };
    if (take_named(e, from, err) < 0)
        return -1;
    if (take_all(e, from) < 0)
        return err_set(err, ERR_MEMORY, "out of memory for a job");
    return check(e, err);
}

void job_env_fini(struct job_env *e)
{
    buf_fini(&e->open);
    buf_fini(&e->secret);
}

/* ---- the files ---- */

static void remove_file(const char *dir, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%.3900s/%s", dir, name);
    unlink(path);
}

int job_env_write(const struct job_env *e, const struct daemon *d, int64_t id, struct err *err)
{
    char dir[PATH_MAX];
    job_dir(dir, sizeof(dir), d, id);
    if (job_dir_make(dir, err) == 0 && env_file_write(dir, ENV_FILE, &e->open, err) == 0 &&
        (e->secret.size == 0 || env_file_write(dir, ENV_FILE_SECRETS, &e->secret, err) == 0))
        return 0;
    job_env_discard(d, id);
    return -1;
}

int job_env_read(struct buf *open, const struct daemon *d, int64_t id, struct err *err)
{
    char dir[PATH_MAX];
    job_dir(dir, sizeof(dir), d, id);
    return env_file_read(open, dir, ENV_FILE, err);
}

json_t *job_env_describe(const char *dir, const json_t *spec)
{
    struct buf open = { .data = NULL };
    const char *from = field_text(spec, "env_from");
    json_t *names = json_array();
    json_int_t variables = 0;
    json_t *out = NULL;
    if (env_file_read(&open, dir, ENV_FILE, NULL) == 0) {
        for (const char *at = NULL; (at = env_file_next(&open, at));)
            if (strchr(at, '='))
                variables++;
            else
                json_array_append_new(names, json_text(at));
        out = json_make("{s:s, s:I, s:O}", "from", from[0] ? from : "submit", "variables", variables, "secrets", names);
    }
    json_decref(names);
    buf_fini(&open);
    return out;
}

static json_t *read_secrets(const struct daemon *d, int64_t id)
{
    char dir[PATH_MAX];
    struct buf secret = { .data = NULL };
    job_dir(dir, sizeof(dir), d, id);
    json_t *out = env_file_read(&secret, dir, ENV_FILE_SECRETS, NULL) == 0 ? env_file_values(&secret) : NULL;
    buf_fini(&secret);
    return out;
}

void job_env_recall(struct job *job)
{
    if (!job->secrets)
        job->secrets = read_secrets(job->daemon, job->core.id);
}

bool job_env_complete(const struct job *job)
{
    if (!job->spec.has_secrets)
        return true;
    json_t *there = read_secrets(job->daemon, job->core.id);
    const bool complete = there != NULL;
    json_decref(there);
    return complete;
}

/* ---- the end ---- */

/* True if the directory is another job's, after an older store was restored: what that job runs with stays. */
static bool is_of_another(const char *home, int64_t id, const char *origin)
{
    json_t *spec = job_dir_spec(home, id);
    const bool another = job_file_of_another(home, id, spec, origin);
    json_decref(spec);
    return another;
}

void job_env_end(const struct daemon *d, int64_t id, const char *origin)
{
    char dir[PATH_MAX];
    job_dir(dir, sizeof(dir), d, id);
    if (!is_of_another(d->home.path, id, origin))
        remove_file(dir, ENV_FILE_SECRETS);
}

void job_env_discard(const struct daemon *d, int64_t id)
{
    char dir[PATH_MAX];
    job_dir(dir, sizeof(dir), d, id);
    remove_file(dir, ENV_FILE_SECRETS);
    remove_file(dir, ENV_FILE);
    rmdir(dir); /* fails, as intended, unless it is empty */
}

static bool there_is(const struct daemon *d, int64_t id, const char *name)
{
    char dir[PATH_MAX], path[PATH_MAX + 16];
    job_dir(dir, sizeof(dir), d, id);
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

/* For a job of the store, with the origin stored there. */
static void end_stored(const struct daemon *d, int64_t id)
{
    char *yaml = NULL, *canonical = NULL;
    if (jobs_spec(&yaml, &canonical, d->store, id, NULL) < 0)
        return;
    json_t *spec = json_loads(canonical, 0, NULL);
    job_env_end(d, id, field_text(json_object_get(spec, "checkpoint"), "origin"));
    json_decref(spec);
    free(yaml);
    free(canonical);
}

static void sweep_one(const struct daemon *d, int64_t id)
{
    struct job_row row;
    struct err why = { 0 };
    const bool known = jobs_get(&row, d->store, id, &why) == 0;
    if (known && !row.damaged && row.result[0])
        end_stored(d, id);
    else if (!known && why.code == ERR_NOT_FOUND && !job_file_is_job(d->home.path, id))
        job_env_discard(d, id);
}

void job_env_sweep(const struct daemon *d)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%.4000s/jobs", d->home.path);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char *end;
        const long long id = strtoll(e->d_name, &end, 10);
        if (!*end && end != e->d_name && id > 0 && id < INT64_MAX &&
            (there_is(d, id, ENV_FILE_SECRETS) || there_is(d, id, ENV_FILE)))
            sweep_one(d, id);
    }
    if (dir)
        closedir(dir);
}
