/* SPDX-License-Identifier: Apache-2.0 */
/* job_history.c - see job_history.h */
#include "controller/job/job_history.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "controller/job/job_dir.h"
#include "db/events.h"
#include "db/jobs.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"
#include "engine/base/write_all.h"

enum { FORMAT = 1, HEAD = 256, TAIL = 64 * 1024 };

bool job_history_matters(enum event_kind kind)
{
    switch (kind) {
    case EVENT_SUBMITTED:
    case EVENT_HELD:
    case EVENT_RELEASED:
    case EVENT_EDITED:
    case EVENT_PLACED:
    case EVENT_STOP_REQUESTED:
    case EVENT_RETRY:
    case EVENT_DONE:
    case EVENT_GENERATION_STARTED:
    case EVENT_CHECKPOINT:
        return true;
    default:
        return false;
    }
}

static void path_of(char out[PATH_MAX], const char *home, int64_t id)
{
    snprintf(out, PATH_MAX, "%.4000s/jobs/%lld/" JOB_HISTORY, home, (long long)id);
}

/* ---- writing ---- */

static int add_head(struct buf *out, struct store *s, int64_t id, struct err *err)
{
    char *yaml = NULL, *canonical = NULL;
    if (jobs_spec(&yaml, &canonical, s, id, err) < 0)
        return -1;
    json_t *spec = json_loads(canonical, 0, NULL);
    json_t *head = json_make("{s:I, s:i, s:s, s:s, s:o}", "events_of", (json_int_t)id, "format", FORMAT, "origin",
                             field_text(json_object_get(spec, "checkpoint"), "origin"), "yaml", yaml, "spec",
                             spec ? spec : json_null());
    char *text = head ? json_dumps(head, JSON_COMPACT) : NULL;
    int rc = text ? buf_print(out, "%s\n", text) : -1;
    if (rc < 0)
        err_set(err, ERR_SYSTEM, "the spec of job %lld in the store is not text", (long long)id);
    json_decref(head);
    free(text);
    free(yaml);
    free(canonical);
    return rc;
}

struct adding {
    struct buf *out;
    int64_t     seq;
    bool        head;       /* the file begins here, with the newest spec */
    bool        edited;     /* its head is of an older spec */
};

static int add_event(void *ctx, const struct event_row *row)
{
    struct adding *a = ctx;
    json_t *line = json_make("{s:I, s:I, s:s, s:s, s:I, s:s*, s:I, s:I}", "seq", (json_int_t)row->seq, "at_ms",
                             (json_int_t)row->at_ms, "source", row->source, "kind", row->kind, "attempt",
                             (json_int_t)row->attempt, "node", row->node, "incarnation",
                             (json_int_t)row->incarnation, "agent_seq", (json_int_t)row->agent_seq);
    char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;
    json_t *body = json_loads(row->body, 0, NULL);
    int rc = text && body ? 0 : 1;      /* a damaged event ends the file */
    a->edited |= !a->head && event_kind_of(row->kind) == EVENT_EDITED;
    if (rc == 0) {
        text[strlen(text) - 1] = '\0';
        rc = buf_print(a->out, "%s,\"body\":%s}\n", text, row->body);
        a->seq = row->seq;
    }
    json_decref(line);
    json_decref(body);
    free(text);
    return rc;
}

static int write_fd(int fd, const struct buf *text)
{
    const bool whole = fd >= 0 && write_all(fd, text->data, text->size) == 0;
    if (fd >= 0)
        close(fd);
    return whole ? 0 : -1;
}

/* The whole file, in the place of what there may be. */
static int replace(const char *home, int64_t id, const struct buf *text, struct err *err)
{
    char path[PATH_MAX];
    path_of(path, home, id);
    *strrchr(path, '/') = '\0';
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return err_set(err, ERR_SYSTEM, "cannot create directory %s: %m", path);
    const int dir = job_dir_open(home, id, err);
    if (dir < 0)
        return -1;
    int rc = write_fd(safe_open_in(dir, JOB_HISTORY ".new", O_WRONLY | O_CREAT | O_TRUNC, NULL), text);
    if (rc == 0)
        rc = renameat(dir, JOB_HISTORY ".new", dir, JOB_HISTORY);
    if (rc < 0)
        err_set(err, ERR_SYSTEM, "cannot write %s/" JOB_HISTORY ": %m", path);
    close(dir);
    return rc;
}

static int append(const char *home, int64_t id, const struct buf *text, struct err *err)
{
    char path[PATH_MAX];
    path_of(path, home, id);
    if (write_fd(job_dir_open_file(home, id, JOB_HISTORY, O_WRONLY | O_APPEND, NULL), text) == 0)
        return 0;
    return err_set(err, ERR_SYSTEM, "cannot write %s: %m", path);
}

int job_history_write(int64_t *have, const char *home, struct store *s, int64_t id, struct err *err)
{
    struct buf text;
    struct adding adding = { &text, *have, *have == 0, false };
    buf_init(&text);
    int rc = *have == 0 ? add_head(&text, s, id, err) : 0;
    if (rc == 0 && events_each(s, id, *have, INT64_MAX, add_event, &adding, err) < 0)
        rc = -1;
    if (rc == 0 && adding.edited) {
        buf_fini(&text);
        *have = 0;
        return job_history_write(have, home, s, id, err);
    }
    if (rc == 0 && text.size > 0)
        rc = *have == 0 ? replace(home, id, &text, err) : append(home, id, &text, err);
    *have = rc == 0 ? adding.seq : 0;       /* after a failure all of it is written again */
    buf_fini(&text);
    return rc;
}

/* ---- reading ---- */

/* The value of "key": in text of ours, without a parser. */
static const char *value_of(const char *text, const char *key)
{
    char quoted[32];
    snprintf(quoted, sizeof(quoted), "\"%s\":", key);
    const char *at = strstr(text, quoted);
    return at ? at + strlen(quoted) : NULL;
}

static void origin_of(char out[JOB_HISTORY_ORIGIN], int fd)
{
    char head[HEAD];
    const ssize_t n = pread(fd, head, sizeof(head) - 1, 0);
    head[n > 0 ? n : 0] = '\0';
    const char *at = value_of(head, "origin");
    snprintf(out, JOB_HISTORY_ORIGIN, "%.*s", at ? (int)strspn(at + 1, "0123456789abcdef") : 0, at ? at + 1 : "");
}

/* The sequence number in the last line; 0: it has none, or is not whole. */
static int64_t last_of(int fd)
{
    const off_t size = lseek(fd, 0, SEEK_END), from = size > TAIL ? size - TAIL : 0;
    char *text = malloc(TAIL + 1);
    int64_t seq = 0;
    const ssize_t n = text ? pread(fd, text, TAIL, from) : -1;
    if (n > 1 && text[n - 1] == '\n') {
        text[n - 1] = '\0';
        char *line = memrchr(text, '\n', (size_t)n - 1);
        json_t *event = json_loads(line ? line + 1 : "", 0, NULL);
        seq = field_int(event, "seq", 0);
        json_decref(event);
    }
    free(text);
    return seq;
}

bool job_history_end(struct job_history_end *end, const char *home, int64_t id)
{
    *end = (struct job_history_end){ .seq = 0 };
    const int fd = job_dir_open_file(home, id, JOB_HISTORY, O_RDONLY, NULL);
    if (fd < 0)
        return false;
    origin_of(end->origin, fd);
    end->seq = last_of(fd);
    close(fd);
    return true;
}

bool job_history_same(const struct job_history_end *end, const char *canonical)
{
    return !end->origin[0] || strstr(canonical, end->origin) || !strstr(canonical, "\"origin\":");
}

bool job_history_of_another(const char *home, int64_t id, const json_t *spec, const char *origin)
{
    const char *theirs = field_text(json_object_get(spec, "checkpoint"), "origin");
    struct job_history_end end;
    if (!theirs[0] || !origin[0] || strcmp(theirs, origin) == 0)
        return false;
    return !job_history_end(&end, home, id) || strcmp(end.origin, origin) != 0;
}
