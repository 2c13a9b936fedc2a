/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - see report.h */
#include "controller/watch/report.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/core/redact.h"
#include "controller/base/client.h"
#include "controller/cli/command.h"
#include "controller/cli/output.h"
#include "controller/job/event_kind.h"
#include "controller/job/job_dir.h"
#include "controller/watch/report_page.h"
#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"
#include "engine/base/text_append.h"
#include "engine/base/write_all.h"

/* ---- a .tar.gz, complete or absent ---- */

struct tarball {
    struct archive *file;
    char            path[4096], beside[4104];
    char            why[200]; /* the first failure; "" = none */
};

static void note_failure(struct tarball *t)
{
    const int code = archive_errno(t->file);
    if (!t->why[0])
        snprintf(t->why, sizeof(t->why), "%s", code > 0 ? strerror(code) : "the archive cannot be written");
}

/* Frees the tarball in any case; on failure no file is left. */
static int tarball_finish(struct tarball *t, struct err *err)
{
    int rc = 0;
    if (archive_write_close(t->file) != ARCHIVE_OK)
        note_failure(t);
    if (!t->why[0] && rename(t->beside, t->path) < 0)
        snprintf(t->why, sizeof(t->why), "%m");
    if (t->why[0]) {
        rc = err_set(err, ERR_SYSTEM, "cannot write %s: %s", t->path, t->why);
        unlink(t->beside);
    }
    archive_write_free(t->file);
    free(t);
    return rc;
}

static int tarball_create(struct tarball **out, const char *path, struct err *err)
{
    struct tarball *t = calloc(1, sizeof(*t));
    if (!t || !(t->file = archive_write_new())) {
        free(t);
        return err_set(err, ERR_MEMORY, "out of memory for an archive");
    }
    snprintf(t->path, sizeof(t->path), "%s", path);
    snprintf(t->beside, sizeof(t->beside), "%s.new", t->path);
    *out = t;
    if (archive_write_add_filter_gzip(t->file) == ARCHIVE_OK &&
        archive_write_set_format_ustar(t->file) == ARCHIVE_OK &&
        archive_write_open_filename(t->file, t->beside) == ARCHIVE_OK)
        return 0;
    note_failure(t);
    return tarball_finish(t, err);
}

/* name: "folder/file". The first failure is kept; tarball_finish() returns it. */
static void tarball_add(struct tarball *t, const char *name, const char *bytes, size_t size, int64_t time_s)
{
    struct archive_entry *e = archive_entry_new();
    archive_entry_set_pathname(e, name);
    archive_entry_set_filetype(e, AE_IFREG);
    archive_entry_set_perm(e, 0600);
    archive_entry_set_size(e, (int64_t)size);
    archive_entry_set_mtime(e, time_s, 0);
    if (archive_write_header(t->file, e) != ARCHIVE_OK ||
        archive_write_data(t->file, bytes, size) != (ssize_t)size)
        note_failure(t);
    archive_entry_free(e);
}

/* ---- the report ---- */

enum { TAIL = 256 * 1024, EVENTS = 1000 };

struct report {
    struct call    *call;
    struct client  *client;
    struct tarball *tar;
    struct redact  *redact;
    char           *job;     /* as part of a path of the API */
    long long       id;
    int             files;
};

/* Text without secrets. */
static void add(struct report *r, const char *name, const char *text)
{
    char path[100];
    snprintf(path, sizeof(path), "job-%lld/%s", r->id, name);
    tarball_add(r->tar, path, text, strlen(text), time(NULL));
    r->files++;
}

static void add_text(struct report *r, const char *name, const char *text)
{
    char *clean = redact_text(r->redact, text, NULL);
    if (clean)
        add(r, name, clean);
    free(clean);
}

static void add_json(struct report *r, const char *name, const json_t *value)
{
    json_t *clean = redact_tree(r->redact, value, NULL);
    char *text = clean ? json_dumps(clean, JSON_INDENT(1)) : NULL;
    if (text)
        add(r, name, text);
    json_decref(clean);
    free(text);
}

/* The last TAIL bytes of a file. */
static void add_file(struct report *r, const char *name, const char *path)
{
    struct stat st;
    struct err strange = { 0 };
    int fd = safe_open(path, O_RDONLY, &strange);
    if (fd < 0 && strange.code != ERR_NOT_FOUND)
        add(r, name, strange.text);
    char *text = fd >= 0 && fstat(fd, &st) == 0 ? malloc(TAIL + 1) : NULL;
    if (text) {
        ssize_t n = pread(fd, text, TAIL, st.st_size > TAIL ? st.st_size - TAIL : 0);
        text[n > 0 ? n : 0] = '\0';
        for (ssize_t i = 0; i < n; i++)
            if (text[i] == '\0')
                text[i] = '?'; /* output may contain any bytes */
        add_text(r, name, text);
    }
    free(text);
    if (fd >= 0)
        close(fd);
}

static bool wanted(const char *name)
{
    const char *dot = strrchr(name, '.');
    return (dot && strcmp(dot, ".log") == 0) ||
           (strncmp(name, "incident-", 9) == 0 && dot && strcmp(dot, ".txt") == 0);
}

static void add_folder(struct report *r, const char *folder, const char *name)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[PATH_MAX], inside[200];
        if (!wanted(e->d_name) || strlen(e->d_name) > 60)
            continue;
        snprintf(path, sizeof(path), "%.3900s/%.60s", folder, e->d_name);
        snprintf(inside, sizeof(inside), "%s/%.60s", name, e->d_name);
        add_file(r, inside, path);
    }
    if (d)
        closedir(d);
}

/* The logs of its agents and ranks, node by node. */
static void add_attempt(struct report *r, const char *dir, long long attempt)
{
    char run_dir[PATH_MAX], folder[PATH_MAX], name[80];
    snprintf(run_dir, sizeof(run_dir), "%.3900s/%lld", dir, attempt);
    snprintf(name, sizeof(name), "attempt-%lld", attempt);
    add_folder(r, run_dir, name);
    for (int node = 1;; node++) {
        job_dir_node(folder, sizeof(folder), run_dir, node);
        if (access(folder, F_OK) < 0)
            break;
        snprintf(name, sizeof(name), "attempt-%lld/node%d", attempt, node);
        add_folder(r, folder, name);
    }
}

/* One line per event; the newest facts and plan are files of their own. */
static int add_events(struct report *r)
{
    struct buf lines;
    json_t *answer = NULL, *facts = NULL, *plan = NULL;
    long long after = 0;
    int rc = -1;
    buf_init(&lines);
    for (size_t n = EVENTS; n == EVENTS;) {
        json_decref(answer);
        if (client_get(r->client, &answer, &r->call->err, "/v1/jobs/%s/events?after=%lld&limit=%d",
                       r->job, after, EVENTS) < 0)
            goto out;
        size_t i;
        json_t *event;
        json_t *events = json_object_get(answer, "events");
        n = json_array_size(events);
        json_array_foreach (events, i, event) {
            const enum event_kind kind = event_kind_of(json_string_value(json_object_get(event, "kind")));
            json_t *clean = redact_tree(r->redact, event, NULL);
            char *text = clean ? json_dumps(clean, JSON_COMPACT) : NULL;
            after = json_integer_value(json_object_get(event, "seq"));
            if (text)
                buf_print(&lines, "%s\n", text);
            json_decref(clean);
            free(text);
            json_t **keep = kind == EVENT_FACTS ? &facts : kind == EVENT_PLAN ? &plan : NULL;
            if (keep) {
                json_decref(*keep);
                *keep = json_incref(json_object_get(event, "body"));
            }
        }
    }
    if (lines.data && buf_append(&lines, "", 1) == 0)
        add(r, "events.jsonl", lines.data);
    if (facts)
        add_json(r, "facts.json", facts);
    if (plan)
        add_json(r, "plan.json", plan);
    rc = 0;
out:
    json_decref(answer);
    json_decref(facts);
    json_decref(plan);
    buf_fini(&lines);
    return rc;
}

/* Known secrets: values of the job's secrets that are set in this environment, and values of the
 * spec whose key looks like a secret. What memory has no room for is found by its shape only. */
static void learn_secrets(struct report *r, const json_t *job)
{
    const json_t *spec = json_object_get(job, "spec");
    size_t i;
    const char *name;
    json_t *value;
    json_array_foreach (json_object_get(spec, "secrets"), i, value) {
        name = json_string_value(value);
        redact_add(r->redact, name ? getenv(name) : NULL);
    }
    json_object_foreach (json_object_get(spec, "env"), name, value) {
        if (redact_is_telling(name, strlen(name)))
            redact_add(r->redact, json_string_value(value));
    }
    json_array_foreach (json_object_get(job, "attempts"), i, value)
        redact_add(r->redact, json_string_value(json_object_get(value, "nonce")));
}

static int fill(struct report *r, const json_t *job)
{
    json_t *why = NULL, *attempt;
    const char *dir = json_string_value(json_object_get(json_object_get(job, "paths"), "dir"));
    char path[PATH_MAX];
    size_t i;
    if (client_get(r->client, &why, &r->call->err, "/v1/jobs/%s/why", r->job) < 0)
        return -1;
    add_json(r, "why.json", why);
    add_json(r, "job.json", job);
    json_decref(why);
    if (add_events(r) < 0)
        return -1;
    const char *hang = json_string_value(json_object_get(job, "files"));
    if (hang)
        add(r, "files.txt", hang);
    if (!dir || hang)
        return 0;
    snprintf(path, sizeof(path), "%s/spec.yaml", dir);
    add_file(r, "spec.yaml", path);
    json_array_foreach (json_object_get(job, "attempts"), i, attempt)
        add_attempt(r, dir, json_integer_value(json_object_get(attempt, "attempt")));
    return 0;
}

static void tell(const struct report *r, const char *path)
{
    struct call *call = r->call;
    if (call->json)
        output_json(call, json_make("{s:s, s:i}", "path", path, "files", r->files));
    else
        fprintf(call->out.file,
                "%s: %d %s. Values of the job's secrets and strings that look like keys were "
                "removed; "
                "check the files before you send them.\n",
                path, r->files, r->files == 1 ? "file" : "files");
}

static int write_page(struct report *r, const char *path)
{
    struct err *err = &r->call->err;
    char *text = report_page_make(r->client, r->job, r->redact, err);
    int rc = -1;
    if (text && strcmp(path, "-") == 0) {
        fputs(text, r->call->out.file);
        rc = 0;
    } else if (text) {
        const int fd = safe_open(path, O_WRONLY | O_CREAT | O_TRUNC, err);
        if (fd >= 0 && (rc = write_all(fd, text, strlen(text))) < 0)
            err_set(err, ERR_SYSTEM, "cannot write %.300s: %m", path);
        if (fd >= 0)
            close(fd);
    }
    free(text);
    if (rc < 0 || strcmp(path, "-") == 0)
        return rc;
    r->files = 1;
    tell(r, path);
    return 0;
}

int report_write(struct call *call, const char *path)
{
    struct report r = {.call = call};
    const bool page = strcmp(path, "-") == 0 || text_ends_with(path, ".html");
    json_t *job = NULL;
    if (!page && !text_ends_with(path, ".tar.gz") && !text_ends_with(path, ".tgz"))
        return err_set(&call->err, ERR_USAGE, "--report %.200s: expected a name that ends in .html for a page, in "
                       ".tar.gz for an archive, or - for a page on standard output", path);
    int rc = -1;
    r.job = client_job_part(call->options.args[0], &call->err);
    r.redact = redact_create();
    if (!r.job || !r.redact || client_open(&r.client, true, &call->err) < 0 ||
        client_get(r.client, &job, &call->err, "/v1/jobs/%s", r.job) < 0)
        goto out;
    r.id = json_integer_value(json_object_get(json_object_get(job, "job"), "id"));
    learn_secrets(&r, job);
    if (page) {
        rc = write_page(&r, path);
        goto out;
    }
    if (tarball_create(&r.tar, path, &call->err) < 0)
        goto out;
    rc = fill(&r, job);
    if (tarball_finish(r.tar, &call->err) < 0)
        rc = -1;
    if (rc == 0)
        tell(&r, path);
    else
        unlink(path);
out:
    json_decref(job);
    client_close(r.client);
    redact_destroy(r.redact);
    free(r.job);
    return rc;
}
