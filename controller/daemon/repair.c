/* SPDX-License-Identifier: Apache-2.0 */
/* repair.c - see repair.h */
#include "controller/daemon/repair.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/os/identity.h"
#include "controller/base/daemon.h"
#include "controller/base/home.h"
#include "controller/daemon/home_lock.h"
#include "controller/daemon/replay.h"
#include "controller/daemon/snapshots.h"
#include "controller/daemon/submission.h"
#include "controller/daemon/survey.h"
#include "controller/job/job.h"
#include "controller/job/job_dir.h"
#include "controller/job/job_env.h"
#include "controller/job/job_history.h"
#include "controller/job/job_store.h"
#include "db/rebuild.h"
#include "db/store.h"
#include "engine/base/dir_walk.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define STORE "jobs.db"
#define NEW "jobs.db.repair"            /* built here */
#define TAKEN "jobs.db.repair-snapshot" /* a copy of the snapshot */

static const char *const companions[] = { "-wal", "-shm", "-journal" };

struct repair {
    struct daemon daemon;       /* home and store; nothing of it runs */
    json_t       *report;
    json_int_t    rebuilt, advanced, ended;
};

static void path_in(char out[PATH_MAX], const char *home, const char *name, const char *suffix)
{
    snprintf(out, PATH_MAX, "%.3900s/%s%s", home, name, suffix);
}

static void remove_all(const char *home, const char *name)
{
    char path[PATH_MAX];
    path_in(path, home, name, "");
    unlink(path);
    for (size_t i = 0; i < ARRAY_LEN(companions); i++) {
        path_in(path, home, name, companions[i]);
        unlink(path);
    }
}

static void report_set(struct repair *r, const char *key, json_t *value)
{
    json_object_set_new(r->report, key, value);
}

/* ---- the base ---- */

/* The present store, if it is sound; what it is goes into the report. */
static void take_store(struct repair *r)
{
    char from[PATH_MAX], to[PATH_MAX];
    struct err err = { 0 };
    path_in(from, r->daemon.home, STORE, "");
    path_in(to, r->daemon.home, NEW, "");
    if (access(from, F_OK) < 0) {
        report_set(r, "store", json_text("missing"));
        return;
    }
    const bool sound = rebuild_copy(from, to, &err) == 0;
    report_set(r, "store", json_text(sound ? "sound" : "damaged"));
}

/* Opens a copy, if its tables are those of this version. */
static int open_copy(struct store **out, const char *home, const char *name, enum integrity depth, struct err *err)
{
    char path[PATH_MAX];
    path_in(path, home, name, "");
    return store_open_checked(out, path, depth, err);
}

/* From the newest snapshot that is sound; without one nothing. */
static int take_snapshot(struct repair *r, struct err *err)
{
    char name[SNAPSHOT_NAME], from[PATH_MAX], copy[PATH_MAX];
    const char *home = r->daemon.home;
    int64_t taken = 0;
    int rc = 0;
    path_in(copy, home, TAKEN, "");
    for (int age = 0; snapshots_name(name, home, age); age++) {
        struct store *old = NULL;
        struct err bad = { 0 };
        snapshots_path(from, home, name);
        if (rebuild_copy(from, copy, &bad) < 0 || open_copy(&old, home, TAKEN, INTEGRITY_UNCHECKED, &bad) < 0)
            continue;
        store_close(old);
        rc = rebuild_take(&taken, r->daemon.store, copy, err);
        report_set(r, "snapshot", json_text(name));
        break;
    }
    remove_all(home, TAKEN);
    report_set(r, "from_snapshot", json_integer((json_int_t)taken));
    return rc;
}

/* ---- one job from its directory ---- */

static int replay_line(struct job *job, const json_t *line, const char *yaml, const char *canonical, struct err *err)
{
    const char *kind = field_text(line, "kind");
    const struct event_source told = { .seq = field_int(line, "agent_seq", -1),
                                       .incarnation = field_int(line, "incarnation", 0) };
    const bool from_agent = strcmp(field_text(line, "source"), "agent") == 0;
    const struct core_event e = { .kind = event_kind_of(kind), .name = kind, .from_agent = from_agent, .keep = true,
                                  .at_ms = field_int(line, "at_ms", 0), .attempt = field_int(line, "attempt", 0),
                                  .body = json_object_get(line, "body") };
    return job_store_replay(job, &e, from_agent && told.seq > 0 ? &told : NULL, yaml, canonical, err);
}

static int64_t retry_of(const struct job_history *h)
{
    return field_int(json_object_get(json_array_get(h->events, 0), "body"), "retry_of", -1);
}

static int store_alone(struct job *job, const struct job_core *was, const struct core_output *out, struct err *err)
{
    struct store *s = job->daemon->store;
    const int rc = job_store_write(job, was, out, NULL, err);
    return store_commit_group(s, rc == 0 ? err : NULL) == 0 ? rc : -1;
}

static int note_rebuilt(struct job *job, struct err *err)
{
    struct core_output out = { 0 };
    const struct job_core was = job->core;
    json_t *body = json_make("{s:s}", "text", "the store was rebuilt; this job is continued from the events in its "
                             "directory");
    const struct core_input in = { .kind = CORE_REBUILT, .at_ms = daemon_now_ms(), .body = body };
    int rc = job_core_step(&job->core, &in, &out, err);
    if (rc == 0)
        rc = store_alone(job, &was, &out, err);
    core_output_fini(&out);
    json_decref(body);
    return rc;
}

static int write_job(struct job *job, const struct job_history *h, const char *canonical, struct err *err)
{
    const char *yaml = field_text(h->head, "yaml");
    size_t i;
    json_t *line;
    job->retry_of = retry_of(h);
    json_array_foreach (h->events, i, line)
        if (replay_line(job, line, yaml, canonical, err) < 0)
            return -1;
    return 0;
}

/* Its numbers that no event has: the last ones that the store knew. */
static void keep_numbers(struct job *job, const struct job_row *row)
{
    job->live_stats.loss = row->loss;
    job->live_stats.samples_per_s = row->samples_per_s;
}

static int rebuild_with(struct repair *r, int64_t id, const struct job_row *row, const struct job_history *h,
                        struct err *err)
{
    struct store *s = r->daemon.store;
    const json_t *spec = json_object_get(h->head, "spec");
    char *canonical = json_dumps(spec, JSON_COMPACT);
    struct job *job = canonical ? job_create(&r->daemon, id, spec, err) : NULL;
    int rc = -1;
    if (job && row)
        keep_numbers(job, row);
    if (job && store_begin(s, err) == 0) {
        if (rebuild_forget(s, id, err) == 0 && write_job(job, h, canonical, err) == 0)
            rc = store_commit(s, err);
        if (rc < 0)
            store_rollback(s);
    }
    if (rc == 0 && job->core.state != JOB_DONE)
        rc = note_rebuilt(job, err);
    job_destroy(job);
    free(canonical);
    return rc;
}

/* An event stands for a damaged one, and an attempt began about there: makes it that of the start, of which the agent's
 * identity file has the nonce. */
static void make_placed(json_t *event, const struct repair *r, int64_t id, int64_t attempt, const json_t *spec)
{
    char dir[PATH_MAX], node[256] = "";
    struct identity who;
    const json_t *want = json_object_get(spec, "resources");
    job_dir_run(dir, sizeof(dir), &r->daemon, id, attempt);
    gethostname(node, sizeof(node) - 1);
    if (identity_read(&who, dir, NULL) < 0 || who.job != id || who.attempt != attempt)
        return;
    json_object_set_new(event, "kind", json_text("placed"));
    json_object_set_new(event, "attempt", json_integer((json_int_t)attempt));
    json_object_set_new(event, "body", json_make("{s:s, s:s, s:I, s:I}", "nonce", who.nonce, "node", node, "cpus",
                                                 (json_int_t)field_int(want, "cpus", 1), "gpus",
                                                 (json_int_t)field_int(want, "gpus", 0)));
}

/* What events that stand for damaged ones do not tell: the rules for restarts, and starts of attempts. */
static void complete(struct job_history *h, const struct repair *r, int64_t id)
{
    const json_t *spec = json_object_get(h->head, "spec");
    json_t *body = json_object_get(json_array_get(h->events, 0), "body"), *event, *stood = NULL;
    int64_t attempt = 0;
    size_t i;
    if (!json_object_get(body, "retry"))
        json_object_set_new(body, "retry", submission_retry(spec));
    json_array_foreach (h->events, i, event) {
        const int64_t of = field_int(event, "attempt", 0);
        const bool stands = strcmp(field_text(event, "kind"), "damaged") == 0;
        if (stood && of > attempt && strcmp(field_text(event, "kind"), "placed") != 0)
            make_placed(stood, r, id, of, spec);
        attempt = of > attempt ? of : attempt;
        stood = stands ? (stood ? stood : event) : NULL;
    }
}

/* The store is the truth from now on: what it does not have is not to be ahead of it. */
static int write_again(struct repair *r, int64_t id, struct err *err)
{
    int64_t have = 0;
    return job_history_write(&have, r->daemon.home, r->daemon.store, id, err);
}

/* Events after a damaged one may make no sense without it; then those before it are all that counts. */
static int rebuild(struct repair *r, int64_t id, const struct job_row *row, struct job_history *h, struct err *err)
{
    struct err why = { 0 };
    complete(h, r, id);
    int rc = rebuild_with(r, id, row, h, &why);
    if (rc < 0 && (!h->damaged || h->whole == 0))
        return err_set(err, why.code, "%s", why.text);
    while (rc < 0 && json_array_size(h->events) > h->whole)
        json_array_remove(h->events, json_array_size(h->events) - 1);
    if (rc < 0)
        rc = rebuild_with(r, id, row, h, err);
    return rc == 0 && h->damaged ? write_again(r, id, err) : rc;
}

static bool same_job(struct store *s, int64_t id, const struct job_history *h)
{
    json_t *spec = job_store_spec(s, id, NULL);
    const char *ours = field_text(json_object_get(spec, "checkpoint"), "origin"), *theirs = field_text(h->head, "origin");
    const bool same = !ours[0] || !theirs[0] || strcmp(ours, theirs) == 0;
    json_decref(spec);
    return same;
}

/* The directory has more events than the rows, or the rows cannot be read. Removed jobs stay removed. */
static int mend(struct repair *r, int64_t id, struct err *err)
{
    struct store *s = r->daemon.store;
    struct job_history_end end;
    struct job_history h;
    struct job_row row;
    struct err why = { 0 };
    const bool known = jobs_get(&row, s, id, &why) == 0;
    const bool intact = known && !row.damaged && rebuild_intact(s, id, row.last_seq);
    if (!job_history_end(&end, r->daemon.home, id) || (intact && row.last_seq >= end.seq) ||
        (!known && strstr(why.text, "removed")))
        return 0;
    if (job_history_read(&h, r->daemon.home, id, &why) < 0)
        return 0;               /* the survey of the new store tells */
    int rc = 0;
    if ((!intact || (int64_t)json_array_size(h.events) > row.last_seq) && (!known || same_job(s, id, &h))) {
        rc = rebuild(r, id, known ? &row : NULL, &h, err);
        r->rebuilt += rc == 0 && !known;
        r->advanced += rc == 0 && known;
    }
    job_history_fini(&h);
    return rc == 0 ? 0 : err_prefix(err, "job %lld: ", (long long)id);
}

static int mend_all(struct repair *r, struct err *err)
{
    char path[PATH_MAX];
    path_in(path, r->daemon.home, "jobs", "");
    DIR *dir = opendir(path);
    struct dirent *e;
    int rc = dir || errno == ENOENT ? 0 : err_set(err, ERR_SYSTEM, "cannot read %s: %m", path);
    while (rc == 0 && (rc = dir_walk_next(&e, dir, path, err)) > 0) {
        char *end;
        const long long id = strtoll(e->d_name, &end, 10);
        rc = !*end && end != e->d_name && id > 0 && id < INT64_MAX ? mend(r, id, err) : 0;
    }
    if (dir)
        closedir(dir);
    return rc;
}

/* ---- jobs without a directory ---- */

/* It was removed after the copy was made, or its directory is lost: it can never end by itself. */
static int end_vanished(struct repair *r, int64_t id, struct err *err)
{
    struct job *job;
    struct core_output out = { 0 };
    if (replay_job(&job, &r->daemon, id, err) < 0)
        return -1;
    const struct job_core was = job->core;
    const struct core_input in = { .kind = job->core.live ? CORE_AGENT_LOST : CORE_REFUSE, .at_ms = daemon_now_ms(),
                                   .attempt = job->core.attempt, .event = "config_error",
                                   .text = "its directory was gone when the store was rebuilt" };
    int rc = job_core_step(&job->core, &in, &out, err);
    if (rc == 0)
        rc = store_alone(job, &was, &out, err);
    r->ended += rc == 0;
    core_output_fini(&out);
    job_destroy(job);
    return rc;
}

static int end_all_vanished(struct repair *r, const struct survey *survey, struct err *err)
{
    const struct survey_ids *gone = &survey->jobs[SURVEY_VANISHED];
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < gone->count; i++)
        rc = end_vanished(r, gone->list[i], err);
    return rc;
}

/* Jobs of a snapshot whose directory is gone were removed since. `before`: what the base already lacked. */
static int drop_removed(struct repair *r, const struct survey *before, struct err *err)
{
    struct survey *after;
    int rc = 0;
    if (survey_make(&after, r->daemon.home, r->daemon.store, err) < 0)
        return -1;
    for (int fault = 0; fault < SURVEY_FAULTS; fault++)
        for (size_t i = 0; rc == 0 && i < after->jobs[fault].count; i++) {
            const int64_t id = after->jobs[fault].list[i];
            if ((fault == SURVEY_VANISHED || fault == SURVEY_EMPTIED) && survey_of(before, id) == SURVEY_FINE)
                rc = rebuild_drop(r->daemon.store, id, err);
        }
    survey_free(after);
    return rc;
}

/* Adds the jobs of the newest snapshot that the base lacks. */
static int add_snapshot(struct repair *r, struct err *err)
{
    struct survey *before = NULL;
    int rc = survey_make(&before, r->daemon.home, r->daemon.store, err);
    if (rc == 0)
        rc = take_snapshot(r, err);
    if (rc == 0)
        rc = drop_removed(r, before, err);
    if (rc == 0)
        rc = end_all_vanished(r, before, err);
    survey_free(before);
    return rc;
}

/* ---- all of it ---- */

static int fill(struct repair *r, struct err *err)
{
    struct store *s = r->daemon.store;
    struct survey *left = NULL;
    int64_t jobs;
    if (add_snapshot(r, err) < 0 || mend_all(r, err) < 0 ||
        jobs_count(&jobs, s, err) < 0 || survey_make(&left, r->daemon.home, s, err) < 0)
        return -1;
    report_set(r, "jobs", json_integer(jobs));
    report_set(r, "rebuilt", json_integer(r->rebuilt));
    report_set(r, "advanced", json_integer(r->advanced));
    report_set(r, "ended", json_integer(r->ended));
    report_set(r, "left", survey_json(left));
    survey_free(left);
    job_env_sweep(&r->daemon);
    return 0;
}

/* Moves the old store aside, its log first: a log must never meet another store. */
static int swap(struct repair *r, struct err *err)
{
    char aside[64], from[PATH_MAX], to[PATH_MAX], dir[PATH_MAX];
    const char *home = r->daemon.home;
    snprintf(aside, sizeof(aside), "store-before-repair-%lld", (long long)daemon_now_ms());
    path_in(dir, home, aside, "");
    if (mkdir(dir, 0700) < 0)
        return err_set(err, ERR_SYSTEM, "cannot create %s: %m", dir);
    for (int i = (int)ARRAY_LEN(companions); i >= 0; i--) {
        const char *suffix = i > 0 ? companions[i - 1] : "";
        path_in(from, home, STORE, suffix);
        path_in(to, dir, STORE, suffix);
        if (rename(from, to) < 0 && errno != ENOENT)
            return err_set(err, ERR_SYSTEM, "cannot move %s to %s: %m", from, to);
    }
    path_in(from, home, NEW, "");
    path_in(to, home, STORE, "");
    if (rename(from, to) < 0)
        return err_set(err, ERR_SYSTEM, "cannot move %s to %s: %m; the old store is in %s", from, to, dir);
    if (rmdir(dir) == 0)
        dir[0] = '\0';          /* there was no old store */
    report_set(r, "old", dir[0] ? json_text(dir) : json_null());
    return 0;
}

static int repair(struct repair *r, struct err *err)
{
    const char *home = r->daemon.home;
    remove_all(home, NEW);
    take_store(r);
    int rc = open_copy(&r->daemon.store, home, NEW, INTEGRITY_UNCHECKED, err);
    if (rc == 0)
        rc = fill(r, err);
    store_close(r->daemon.store);
    r->daemon.store = NULL;
    if (rc == 0)
        rc = open_copy(&r->daemon.store, home, NEW, INTEGRITY_FULL, err);
    store_close(r->daemon.store);
    r->daemon.store = NULL;
    if (rc == 0)
        rc = swap(r, err);
    remove_all(home, NEW);
    return rc;
}

int repair_run(json_t **report, const char *home, struct err *err)
{
    char socket[PATH_MAX];
    enum home_end before;
    struct repair *r = calloc(1, sizeof(*r));
    if (!r)
        return err_set(err, ERR_MEMORY, "out of memory for the repair");
    path_in(socket, home, HOME_SOCKET, "");
    const int lock = home_lock(&before, home, socket, err);
    int rc = lock < 0 ? -1 : 0;
    snprintf(r->daemon.home, sizeof(r->daemon.home), "%s", home);
    r->report = json_make("{s:n, s:n}", "snapshot", "old");
    if (rc == 0)
        rc = repair(r, err);
    if (lock >= 0)
        home_lock_leave(lock, rc == 0 ? HOME_CLEAN : before);
    *report = rc == 0 ? json_incref(r->report) : NULL;
    json_decref(r->report);
    free(r);
    return rc;
}

static json_t *look(const char *home, struct err *err)
{
    char path[PATH_MAX];
    struct survey *survey = NULL;
    struct store *s = NULL;
    struct err why = { 0 };
    json_t *out = NULL;
    path_in(path, home, STORE, "");
    if (access(path, F_OK) < 0)
        return json_null();
    if (store_open_checked(&s, path, INTEGRITY_QUICK, &why) < 0)
        return json_make("{s:s, s:b, s:b}", "text", why.text, "damaged", why.errnum == EUCLEAN, "repair", 1);
    if (survey_make(&survey, home, s, err) == 0)
        out = survey_json(survey);
    survey_free(survey);
    store_close(s);
    return out;
}

json_t *repair_look(const char *home, struct err *err)
{
    char socket[PATH_MAX];
    enum home_end before;
    path_in(socket, home, HOME_SOCKET, "");
    const int lock = home_lock(&before, home, socket, err);
    json_t *out = lock >= 0 ? look(home, err) : NULL;
    if (lock >= 0)
        home_lock_leave(lock, before);
    return out;
}
