/* SPDX-License-Identifier: Apache-2.0 */
/* survey.c - see survey.h */
#include "controller/daemon/survey.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "controller/job/job_dir.h"
#include "db/jobs.h"
#include "engine/base/dir_walk.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

/* clang-format off */
static const struct { const char *key; bool held, repair; const char *many, *one; } faults[SURVEY_FAULTS] = {
    [SURVEY_BEHIND]     = { "behind", true, true, "more events in the directory than in the store",
        "its directory has more events than the store, which is an older copy or was damaged: "
        "run `jobctl doctor --repair`" },
    [SURVEY_STRANGER]   = { "strangers", false, false, "the directory is that of another job",
        "its directory is that of another job of the same number: move the directory away, or remove this job" },
    [SURVEY_VANISHED]   = { "vanished", true, true, "started, and the directory is gone",
        "it has started, and its directory is gone: restore the directory, or end the job with "
        "`jobctl doctor --repair`" },
    [SURVEY_UNREADABLE] = { "unreadable", true, true, "damaged rows in the store",
        "its rows in the store are damaged: run `jobctl doctor --repair`" },
    [SURVEY_UNKNOWN]    = { "unknown", false, true, "a directory, but no row in the store",
        "is not in the store, but its directory is there: run `jobctl doctor --repair`" },
    [SURVEY_DAMAGED]    = { "damaged", false, false, "no row in the store, and the events in the directory are damaged",
        "is not in the store, and neither events.jsonl nor spec.json in its directory can be read: restore the "
        "directory from a backup, or move it away" },
    [SURVEY_BARE]       = { "bare", false, false, "no row in the store, and a directory without events",
        "is not in the store, and its directory has no events.jsonl: restore the directory from a backup, or move it away" },
    [SURVEY_EMPTIED]    = { "emptied", false, false, "done, and the directory is gone", "" },
};
/* clang-format on */

/* ---- lists of ids ---- */

static int put(struct survey_ids *ids, int64_t id)
{
    if (ids->count == ids->room) {
        const size_t room = ids->room ? 2 * ids->room : 64;
        int64_t *list = reallocarray(ids->list, room, sizeof(*list));
        if (!list)
            return -1;
        ids->list = list;
        ids->room = room;
    }
    ids->list[ids->count++] = id;
    return 0;
}

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void sort(struct survey_ids *ids)
{
    if (ids->count > 0)
        qsort(ids->list, ids->count, sizeof(*ids->list), compare);
}

static bool has(const struct survey_ids *ids, int64_t id)
{
    return ids->count > 0 && bsearch(&id, ids->list, ids->count, sizeof(*ids->list), compare);
}

/* "3-5, 9, ..." */
static void print_ids(char *out, size_t size, const struct survey_ids *ids)
{
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0, last; i < ids->count && at + 48 < size; i = last + 1) {
        for (last = i; last + 1 < ids->count && ids->list[last + 1] == ids->list[last] + 1;)
            last++;
        at += (size_t)snprintf(out + at, size - at, "%s%lld", i ? ", " : "", (long long)ids->list[i]);
        if (last > i)
            at += (size_t)snprintf(out + at, size - at, "-%lld", (long long)ids->list[last]);
        if (last + 1 < ids->count && at + 48 >= size)
            snprintf(out + at, size - at, ", ...");
    }
}

/* ---- looking ---- */


struct look {
    struct survey    *survey;
    const char       *home;
    struct store     *store;
    struct survey_ids dirs, known;  /* known: rows, also of removed jobs */
    struct survey_ids open;         /* rows of jobs that are not done */
};

static bool exists(const struct look *l, int64_t id, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%.4000s/jobs/%lld/%s", l->home, (long long)id, name);
    return access(path, F_OK) == 0;
}

static int list_dirs(struct look *l, struct err *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%.4000s/jobs", l->home);
    DIR *dir = opendir(path);
    struct dirent *e;
    int rc = dir || errno == ENOENT ? 0 : err_set(err, ERR_SYSTEM, "cannot read %s: %m", path);
    while (rc == 0 && (rc = dir_walk_next(&e, dir, path, err)) > 0) {
        rc = 0;
        char *end;
        const long long id = strtoll(e->d_name, &end, 10);
        if (*end || end == e->d_name || id <= 0 || id >= INT64_MAX)
            continue;
        rc = put(&l->dirs, id);
        l->survey->newest = id > l->survey->newest ? id : l->survey->newest;
    }
    if (dir)
        closedir(dir);
    sort(&l->dirs);
    return rc;
}

static int see_row(void *ctx, int64_t id, bool started, bool done)
{
    struct look *l = ctx;
    if (put(&l->known, id) < 0 || (!done && put(&l->open, id) < 0))
        return -1;
    if (started && !has(&l->dirs, id))
        survey_add(l->survey, done ? SURVEY_EMPTIED : SURVEY_VANISHED, id);
    return 0;
}

/* A bit of one of the two files may have flipped. */
static bool same_job(struct look *l, int64_t id, const struct job_history_end *end)
{
    char *yaml = NULL, *canonical = NULL;
    if (jobs_spec(&yaml, &canonical, l->store, id, NULL) < 0)
        return true;
    json_t *spec = job_history_same(end, canonical) ? NULL : job_dir_spec(l->home, id);
    const char *origin = field_text(json_object_get(spec, "checkpoint"), "origin");
    const bool same = job_history_same(end, canonical) || (origin[0] && strstr(canonical, origin));
    json_decref(spec);
    free(yaml);
    free(canonical);
    return same;
}

static void see_open(struct look *l, int64_t id)
{
    struct job_history_end end;
    struct job_row row;
    if (!job_history_end(&end, l->home, id) || jobs_get(&row, l->store, id, NULL) < 0)
        return;
    if (!same_job(l, id, &end))
        survey_add(l->survey, SURVEY_STRANGER, id);
    else if (end.seq > row.last_seq)
        survey_add(l->survey, SURVEY_BEHIND, id);
}

/* A directory that neither has events nor a spec is what a removal left: checkpoints. */
static void see_dir(struct look *l, int64_t id)
{
    if (has(&l->known, id))
        return;
    if (exists(l, id, JOB_HISTORY))
        survey_add(l->survey, job_history_readable(l->home, id) ? SURVEY_UNKNOWN : SURVEY_DAMAGED, id);
    else if (exists(l, id, "spec.json"))
        survey_add(l->survey, SURVEY_BARE, id);
}

int survey_make(struct survey **out, const char *home, struct store *s, struct err *err)
{
    struct look l = { .survey = calloc(1, sizeof(*l.survey)), .home = home, .store = s };
    int rc = l.survey ? list_dirs(&l, err) : -1;
    if (rc == 0)
        rc = jobs_ids(s, see_row, &l, err);
    for (size_t i = 0; rc == 0 && i < l.open.count; i++)
        see_open(&l, l.open.list[i]);
    for (size_t i = 0; rc == 0 && i < l.dirs.count; i++)
        see_dir(&l, l.dirs.list[i]);
    free(l.dirs.list);
    free(l.known.list);
    free(l.open.list);
    if (rc == 0) {
        *out = l.survey;
        return 0;
    }
    survey_free(l.survey);
    return err_set(err, ERR_MEMORY, "out of memory for the list of jobs");
}

void survey_free(struct survey *survey)
{
    for (int i = 0; survey && i < SURVEY_FAULTS; i++)
        free(survey->jobs[i].list);
    free(survey);
}

/* ---- what was found ---- */

void survey_add(struct survey *survey, enum survey_fault fault, int64_t id)
{
    struct survey_ids *ids = &survey->jobs[fault];
    if (put(ids, id) == 0 && ids->count > 1 && ids->list[ids->count - 2] > id)
        sort(ids);
}

enum survey_fault survey_of(const struct survey *survey, int64_t id)
{
    int fault = 0;
    while (fault < SURVEY_FAULTS && !(survey && has(&survey->jobs[fault], id)))
        fault++;
    return (enum survey_fault)fault;
}

bool survey_allows(const struct survey *survey, int64_t id)
{
    const enum survey_fault fault = survey_of(survey, id);
    return fault == SURVEY_FINE || !faults[fault].held;
}

bool survey_needs_repair(const struct survey *survey)
{
    for (int i = 0; survey && i < SURVEY_FAULTS; i++)
        if (faults[i].repair && survey->jobs[i].count > 0)
            return true;
    return false;
}

const char *survey_reason(const struct survey *survey, int64_t id)
{
    const enum survey_fault fault = survey_of(survey, id);
    return fault == SURVEY_FINE ? "" : faults[fault].one;
}

int survey_job_get(struct job_row *row, const struct survey *survey, struct store *s, int64_t id, struct err *err)
{
    const char *reason = survey_reason(survey, id);
    struct err why = { 0 };
    if (jobs_get(row, s, id, &why) == 0)
        return 0;
    if (why.code == ERR_NOT_FOUND && reason[0])
        return err_set(err, ERR_NOT_FOUND, "job %lld %s", (long long)id, reason);
    return err_set(err, why.code, "%s", why.text);
}

size_t survey_text(char *out, size_t size, const struct survey *survey)
{
    size_t at = 0;
    out[0] = '\0';
    for (int i = 0; survey && i < SURVEY_FAULTS; i++) {
        const struct survey_ids *ids = &survey->jobs[i];
        char list[160];
        print_ids(list, sizeof(list), ids);
        if (ids->count > 0 && at < size)
            at += (size_t)snprintf(out + at, size - at, "%s%zu job%s (%s): %s", at ? "; " : "", ids->count,
                                   ids->count == 1 ? "" : "s", list, faults[i].many);
    }
    if (survey_needs_repair(survey) && at < size)
        at += (size_t)snprintf(out + at, size - at, ". None of these was changed: run `jobctl doctor --repair`");
    return at < size ? at : size - 1;
}

json_t *survey_json(const struct survey *survey)
{
    char text[1600];
    survey_text(text, sizeof(text), survey);
    json_t *jobs = json_object();
    for (int i = 0; i < SURVEY_FAULTS; i++) {
        json_t *ids = json_array();
        for (size_t k = 0; survey && k < survey->jobs[i].count; k++)
            json_array_append_new(ids, json_integer(survey->jobs[i].list[k]));
        json_object_set_new(jobs, faults[i].key, ids);
    }
    return json_make("{s:s, s:b, s:o}", "text", text, "repair", (int)survey_needs_repair(survey), "jobs", jobs);
}
