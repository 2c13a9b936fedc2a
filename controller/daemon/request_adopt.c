/* SPDX-License-Identifier: Apache-2.0 */
/* request_adopt.c - POST /v1/adopt: continues a job of another machine from its mirror
 *
 * The mirror (agent/mirror/mirror.h) is the only source. It becomes a new job of this store with
 * the origin of the old one: its agent takes the mirror's lease and restores the newest checkpoint
 * before the ranks start. The latest lines of the history are kept in the event `submitted`.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/os/safe_open.h"
#include "controller/base/daemon.h"
#include "controller/daemon/request_job.h"
#include "controller/daemon/requests.h"
#include "controller/daemon/submission.h"
#include "controller/daemon/submit_batch.h"
#include "controller/http/server.h"
#include "controller/job/event_text.h"
#include "controller/spec/spec_diagnostics.h"
#include "controller/spec/spec_paths.h"
#include "engine/contract/err.h"
#include "engine/contract/field.h"

enum { SCHEMA = 1, HISTORY_LINES = 100, HISTORY_BYTES = 256 * 1024, TEXT = 400 };

/* Reads DIR/job.json and checks the fields used here. */
static int read_job(json_t **job, const char *dir, struct err *err)
{
    char path[PATH_MAX + 16];
    struct err why = { 0 };
    snprintf(path, sizeof(path), "%s/job.json", dir);
    *job = safe_open_json(path, JSON_REJECT_DUPLICATES, &why);
    if (!*job)
        return err_set(err, ERR_NOT_FOUND, "'%s' is not the mirror of a job: %s", dir, why.text);
    const json_t *spec = json_object_get(*job, "spec");
    if (json_integer_value(json_object_get(*job, "schema")) != SCHEMA ||
        !field_text(spec, "name")[0] || !field_text(json_object_get(spec, "checkpoint"), "origin")[0])
        return err_set(err, ERR_DATA, "'%s' was written by an incompatible version of jobctl",
                       path);
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
    json_object_set_new(json_object_get(spec, "checkpoint"), "mirror",
                        json_stringn(dir, (size_t)(slash - dir)));
    json_object_set_new(spec, "after", json_array());
    if (stat(field_text(spec, "workdir"), &st) < 0) /* the spec's paths are absolute */
        json_object_set_new(spec, "workdir", json_string(dir));
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
        row = json_pack("{s:O?, s:O?, s:O?, s:s, s:s}", "at_ms", json_object_get(e, "at_ms"), "host",
                        json_object_get(e, "host"), "job", json_object_get(e, "job"), "kind", kind,
                        "text", text);
    }
    json_decref(e);
    return row;
}

/* The newest lines of the history; a missing history is no error. */
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

static int adopt(int64_t *id, struct daemon *d, const char *dir, const json_t *body,
                 struct err *err)
{
    char *yaml = NULL;
    json_t *job = NULL;
    struct submission o = { .secrets = json_object_get(body, "secrets"),
                       .hold = json_is_true(json_object_get(body, "hold")) };
    int rc = -1;
    if (read_job(&job, dir, err) < 0)
        goto out;
    o.spec = json_deep_copy(json_object_get(job, "spec"));
    if (!o.spec || settle(o.spec, dir, err) < 0)
        goto out;
    o.adopted = json_pack("{s:s, s:O?, s:O?, s:o}", "dir", dir, "host", json_object_get(job, "host"),
                          "job", json_object_get(job, "job"), "history", read_history(dir));
    o.yaml = yaml = json_dumps(o.spec, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    if (!o.adopted || !yaml)
        err_set(err, ERR_MEMORY, "out of memory for a job");
    else
        rc = submission_place(id, d, &o, err);
out:
    json_decref(o.spec);
    json_decref(o.adopted);
    json_decref(job);
    free(yaml);
    return rc;
}

void request_adopt(struct request *r)
{
    struct daemon *d = request_daemon(r);
    const json_t *body = request_body(r);
    char dir[PATH_MAX];
    struct err err = { 0 };
    int64_t id;
    if (!realpath(field_text(body, "dir"), dir))
        err_set(&err, ERR_NOT_FOUND, "directory '%.300s' does not exist", field_text(body, "dir"));
    else if (adopt(&id, d, dir, body, &err) == 0) {
        submit_batch_flush(d);
        request_job_submitted(r, id, d->submit_batch->batch);
        return;
    }
    request_fail(r, &err, NULL);
}
