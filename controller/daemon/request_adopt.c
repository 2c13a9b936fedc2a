/* SPDX-License-Identifier: Apache-2.0 */
/* request_adopt.c - POST /v1/adopt: continues a job of another machine from its mirror
 *
 * The mirror (agent/mirror/mirror.h) is the only source, and whoever can write it decides what runs. So job.json passes
 * the checks of a submitted spec (canonical.h), and with `dry_run` the answer says what would run; `expect` in the next
 * request is what the user was shown. It becomes a new job of this store with the origin of the old one: its agent
 * takes the mirror's lease and restores the newest checkpoint before the ranks start. The latest lines of the history
 * are kept in the event `submitted`.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "controller/base/daemon.h"
#include "controller/base/file_work.h"
#include "controller/daemon/request_job.h"
#include "controller/daemon/requests.h"
#include "controller/daemon/submission.h"
#include "controller/daemon/submit_batch.h"
#include "controller/http/request.h"
#include "controller/job/event_text.h"
#include "controller/spec/canonical.h"
#include "controller/spec/spec_diagnostics.h"
#include "controller/spec/spec_paths.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"

/* PATIENCE_MS: a network drive may take a while. */
enum { PATIENCE_MS = 30000 };
enum { SCHEMA = 1, HOST_BYTES = 255, HISTORY_LINES = 100, HISTORY_BYTES = 256 * 1024, TEXT = 400 };

/* A text that the other machine wrote, to be stored and shown. */
static bool is_word(const json_t *v, size_t most)
{
    const char *text = json_string_value(v);
    if (!text || !text[0] || strlen(text) > most)
        return false;
    while (*text && (unsigned char)*text > ' ' && *text != 127)
        text++;
    return !*text;
}

/* The keys beside `spec`; NULL: all are as the agent writes them, else what is wrong. */
static const char *wrong_key(const json_t *job)
{
    static const char *const known = "|schema|origin|name|job|host|spec|";
    const json_t *spec = json_object_get(job, "spec"), *checkpoint = json_object_get(spec, "checkpoint");
    const char *key;
    json_t *value;
    char word[40];
    json_object_foreach ((json_t *)(uintptr_t)job, key, value) {
        snprintf(word, sizeof(word), "|%.30s|", key);
        if (!strstr(known, word))
            return "has an unknown key beside schema, origin, name, job, host and spec";
    }
    if (!json_is_object(spec))
        return "spec: expected a map of keys";
    if (!json_equal(json_object_get(job, "name"), json_object_get(spec, "name")))
        return "name: expected the name of its spec";
    if (!json_equal(json_object_get(job, "origin"), json_object_get(checkpoint, "origin")))
        return "origin: expected the origin of its spec";
    if (!json_is_integer(json_object_get(job, "job")) || json_integer_value(json_object_get(job, "job")) < 1)
        return "job: expected the number of a job";
    if (!is_word(json_object_get(job, "host"), HOST_BYTES))
        return "host: expected the name of a machine";
    return NULL;
}

/* Reads and checks DIR/job.json; *spec is what a submit would have made of its spec. */
static int read_job(json_t **job, json_t **spec, const char *dir, struct err *err)
{
    char path[PATH_MAX + 16];
    struct diagnostics found; /* one sentence is enough: nobody edits this file */
    struct err why = { 0 };
    snprintf(path, sizeof(path), "%s/job.json", dir);
    *job = safe_open_json(path, JSON_REJECT_DUPLICATES, &why);
    if (!*job)
        return err_set(err, ERR_NOT_FOUND, "'%s' is not the mirror of a job: %s", dir, why.text);
    if (!json_is_integer(json_object_get(*job, "schema")) ||
        json_integer_value(json_object_get(*job, "schema")) != SCHEMA)
        return err_set(err, ERR_DATA, "'%s' was written by an incompatible version of jobctl", path);
    const char *wrong = wrong_key(*job);
    if (wrong)
        return err_set(err, ERR_DATA, "%s: %s; no version of jobctl writes that, so it was damaged or changed", path,
                       wrong);
    if (canonical_check(spec, json_object_get(*job, "spec"), true, &found, err) < 0)
        return err_prefix(err, "%s: spec: ", path);
    return 0;
}

/* The mirror may have moved; all other paths must exist as before. */
static int settle(json_t *spec, const char *dir, struct err *err)
{
    const char *slash = strrchr(dir, '/');
    struct spec_diagnostics diagnostics;
    struct stat st;
    if (!slash || strcmp(slash + 1, field_text(spec, "name")) != 0)
        return err_set(err, ERR_USAGE, "the mirror of job %s must be a directory of that name, not "
                       "'%s'", field_text(spec, "name"), dir);
    json_object_set_new(json_object_get(spec, "checkpoint"), "mirror", json_text_n(dir, (size_t)(slash - dir)));
    json_object_set_new(spec, "after", json_array());
    json_object_del(spec, "snapshot");          /* it stayed on the other machine */
    if (stat(field_text(spec, "workdir"), &st) < 0) /* the spec's paths are absolute */
        json_object_set_new(spec, "workdir", json_text(dir));
    if (spec_diagnostics_init(&diagnostics, err) < 0)
        return -1;
    spec_paths_resolve(spec, "/", &diagnostics);
    int rc = diagnostics_first(&diagnostics.found, err);
    spec_diagnostics_fini(&diagnostics);
    return rc < 0 ? err_prefix(err, "the job's files must have their old paths: ") : 0;
}

/* One line of history.jsonl as a sentence; NULL: not to be shown. */
static json_t *past(const char *line, size_t size)
{
    char text[TEXT];
    json_t *e = json_loadb(line, size, JSON_REJECT_DUPLICATES, NULL), *row = NULL;
    const json_t *body = json_object_get(e, "body");
    const char *kind = field_text(e, "kind");
    if (json_is_object(body) && event_is_news(kind, body)) {
        event_text(text, sizeof(text), kind, body);
        row = json_make("{s:O?, s:O?, s:O?, s:s, s:s}", "at_ms", json_object_get(e, "at_ms"), "host",
                        json_object_get(e, "host"), "job", json_object_get(e, "job"), "kind", kind,
                        "text", text);
    }
    json_decref(e);
    return row;
}

/* The newest lines of the history; a missing history is not an error. */
static json_t *read_history(const char *dir)
{
    char path[PATH_MAX + 16];
    json_t *rows = json_array();
    char *bytes = malloc(HISTORY_BYTES);
    snprintf(path, sizeof(path), "%s/history.jsonl", dir);
    FILE *f = bytes ? safe_open_stream(path, NULL) : NULL;
    size_t n = 0;
    if (f) {
        if (fseek(f, -HISTORY_BYTES, SEEK_END) < 0)
            rewind(f);
        n = fread(bytes, 1, HISTORY_BYTES, f);
        fclose(f);
    }
    for (size_t at = 0, end; at < n; at = end + 1) {
        const char *stop = memchr(bytes + at, '\n', n - at);
        end = stop ? (size_t)(stop - bytes) : n;
        json_t *row = past(bytes + at, end - at);
        if (row)
            json_array_append_new(rows, row);
        if (json_array_size(rows) > HISTORY_LINES)
            json_array_remove(rows, 0);
    }
    free(bytes);
    return rows;
}

/* What is not in the mirror: texts. */
static json_t *notes_of(const json_t *job, const json_t *spec)
{
    json_t *notes = json_array();
    if (json_is_true(json_object_get(json_object_get(job, "spec"), "snapshot")))
        json_array_append_new(notes, json_text_f(
            "the snapshot of the job's code is on %s only: the job runs in %s with the present content of that "
                                                 "directory; copy the code of its submit there first",
                                                 field_text(job, "host"), field_text(spec, "workdir")));
    return notes;
}

/* A thread reads the mirror; the handler does the rest. */
struct adoption {
    struct file_task base;
    char             given[PATH_MAX], dir[PATH_MAX];    /* as requested; without links */
    json_t          *expect;                            /* the spec that the user agreed to, or NULL */
    json_t          *job, *spec, *history;              /* job.json, and the spec as it will run here */
    struct err       err;
};

static void adoption_destroy(struct file_task *task)
{
    struct adoption *a = (struct adoption *)task;
    json_decref(a->expect);
    json_decref(a->spec);
    json_decref(a->job);
    json_decref(a->history);
    free(a);
}

static void adoption_read(struct file_task *task)
{
    struct adoption *a = (struct adoption *)task;
    if (!realpath(a->given, a->dir))
        err_set(&a->err, ERR_NOT_FOUND, "directory '%.300s' does not exist", a->given);
    else if (read_job(&a->job, &a->spec, a->dir, &a->err) < 0 || settle(a->spec, a->dir, &a->err) < 0)
        return;
    else if (a->expect && !json_equal(a->expect, a->spec))
        err_set(&a->err, ERR_CONFLICT, "'%s/job.json' has changed since it was shown; repeat the command", a->dir);
    else
        a->history = read_history(a->dir);
}

static void adoption_begin(struct request *r)
{
    const json_t *body = request_body(r);
    char lane[PATH_MAX + 8], what[PATH_MAX + 20];
    struct adoption *a = calloc(1, sizeof(*a));
    if (!a) {
        request_fail(r, &(struct err){ .code = ERR_MEMORY, .text = "out of memory for a job" }, NULL);
        return;
    }
    a->base.work = adoption_read;
    a->base.destroy = adoption_destroy;
    a->base.patience_ms = PATIENCE_MS;
    a->expect = json_deep_copy(json_object_get(body, "expect"));
    snprintf(a->given, sizeof(a->given), "%s", field_text(body, "dir"));
    snprintf(lane, sizeof(lane), "mirror %s", a->given);
    snprintf(what, sizeof(what), "reading the mirror %s", a->given);
    request_work(r, &a->base, lane, what);
}

static int adopt(int64_t *id, struct daemon *d, const struct adoption *a, const json_t *body, struct err *err)
{
    struct submission o = { .spec = a->spec, .secrets = json_object_get(body, "secrets"),
                       .environment = json_object_get(body, "environment"),
                       .hold = json_is_true(json_object_get(body, "hold")) };
    char *yaml = json_dumps(o.spec, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    o.adopted = json_make("{s:s, s:O, s:O, s:O}", "dir", a->dir, "host", json_object_get(a->job, "host"),
                          "job", json_object_get(a->job, "job"), "history", a->history);
    o.yaml = yaml;
    int rc = !o.adopted || !yaml ? err_set(err, ERR_MEMORY, "out of memory for a job")
                                 : submission_place(id, d, &o, err);
    json_decref(o.adopted);
    free(yaml);
    return rc;
}

void request_adopt(struct request *r)
{
    struct daemon *d = request_daemon(r);
    const json_t *body = request_body(r);
    const struct adoption *a = (const struct adoption *)request_worked(r);
    struct err err = { 0 };
    int64_t id;
    if (!a)
        adoption_begin(r);
    else if (a->err.code)
        request_fail(r, &a->err, NULL);
    else if (json_is_true(json_object_get(body, "dry_run")))
        request_answer(r, 200, json_make("{s:s, s:O, s:O, s:O, s:o}", "dir", a->dir, "host",
                                         json_object_get(a->job, "host"), "job", json_object_get(a->job, "job"), "spec",
                                         a->spec, "notes", notes_of(a->job, a->spec)));
    else if (adopt(&id, d, a, body, &err) < 0)
        request_fail(r, &err, NULL);
    else {
        submit_batch_flush(d);
        request_job_submitted(r, id, d->submit_batch->batch);
    }
}
