/* SPDX-License-Identifier: Apache-2.0 */
/* request_follow.c - requests that may wait: events, logs, the end of a job */
#include "controller/requests/requests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/os/log_reader.h"
#include "controller/base/daemon.h"
#include "controller/base/file_work.h"
#include "controller/base/utc.h"
#include "controller/http/request.h"
#include "controller/job/event_text.h"
#include "controller/job/job.h"
#include "controller/job/job_dir.h"
#include "controller/requests/job_json.h"
#include "controller/requests/request_job.h"
#include "db/events.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"
#include "engine/base/utf8.h"

enum { EVENTS_MAX = 10000, LOG_MAX = 1024 * 1024 };

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* ---- events ---- */

json_t *request_event_json(const struct event_row *row)
{
    char text[600];
    json_t *body = json_loads(row->body, 0, NULL);
    if (body)
        event_text(text, sizeof(text), row->kind, body);
    else
        snprintf(text, sizeof(text), "this event is damaged in the store");
    return json_make("{s:I, s:o, s:s, s:s, s:o, s:s, s:o}", "seq", (json_int_t)row->seq, "at",
                     utc_json(row->at_ms), "source", row->source, "kind", row->kind,
                     "attempt", row->attempt > 0 ? json_integer(row->attempt) : json_null(),
                     "text", text, "body", body ? body : json_object());
}

static int add_event(void *ctx, const struct event_row *row)
{
    return json_array_append_new(ctx, request_event_json(row));
}

void request_events(struct request *r)
{
    struct daemon *d = request_daemon(r);
    struct err err = { 0 };
    struct job_row row;
    int64_t after, limit, wait_s;
    if (request_number(&after, r, "after", 0) < 0 || request_number(&limit, r, "limit", 1000) < 0 ||
        request_number(&wait_s, r, "wait_s", 0) < 0 || request_job_row(&row, r) < 0)
        return;
    if (row.last_seq <= after && !row.result[0] && wait_s > 0 && !request_over(r)) {
        request_sleep(r, row.id, clamp(wait_s, 0, WAIT_MAX_S) * 1000);
        return;
    }
    json_t *events = json_array();
    if (events_each(d->store, row.id, after, clamp(limit, 1, EVENTS_MAX), add_event, events, &err) < 0) {
        json_decref(events);
        request_fail(r, &err, NULL);
        return;
    }
    request_answer(r, 200, json_make("{s:o, s:s, s:I}", "events", events, "state", row.state,
                                     "last_seq", (json_int_t)row.last_seq));
}

/* ---- logs ---- */

struct log_part {
    int64_t           attempt, rank, setup, limit, wait_s;
    struct log_reader bytes;
};

/* A read of a log by a thread; the row is from before the read. */
struct log_task {
    struct file_task base;
    struct job_row   row;
    struct log_part  part;
    char             run_dir[PATH_MAX], dir[PATH_MAX];  /* of the attempt; of the rank's node */
    struct err       err;
};

/* An incomplete character at the end is left for the next call, unless there is nothing else. *used: bytes converted. */
static json_t *text_of(const char *data, size_t size, size_t *used)
{
    const size_t whole = utf8_whole(data, size);
    *used = whole ? whole : size;
    return json_text_n(data, *used);
}

/* The directory of a rank's log: that of node 0 or of the rank's node. */
static void log_dir(struct log_task *t)
{
    char path[PATH_MAX + 40];
    for (int node = 0;; node++) {
        job_dir_node(t->dir, sizeof(t->dir), t->run_dir, node);
        if (access(t->dir, F_OK) < 0)
            break;
        snprintf(path, sizeof(path), "%s/rank%lld.log", t->dir, (long long)t->part.rank);
        if (t->part.setup || access(path, F_OK) == 0)
            return;
    }
    job_dir_node(t->dir, sizeof(t->dir), t->run_dir, 0);
}

static void log_work(struct file_task *task)
{
    struct log_task *t = (struct log_task *)task;
    char path[PATH_MAX + 40];
    log_dir(t);
    if (t->part.setup)
        snprintf(path, sizeof(path), "%s/setup.log", t->dir);
    else
        snprintf(path, sizeof(path), "%s/rank%lld.log", t->dir, (long long)t->part.rank);
    log_reader_read(&t->part.bytes, path, (size_t)t->part.limit, &t->err);
}

static void log_destroy(struct file_task *task)
{
    struct log_task *t = (struct log_task *)task;
    free(t->part.bytes.data);
    free(t);
}

static void log_answer(struct request *r, const struct log_part *p, bool done)
{
    size_t used = 0;
    int64_t offset = p->bytes.offset > 0 ? p->bytes.offset : 0;
    json_t *data = text_of(p->bytes.data ? p->bytes.data : "", p->bytes.got, &used);
    json_t *rank = p->setup ? json_null() : json_integer(p->rank);
    int64_t next = offset + (int64_t)used, size = p->bytes.size > 0 ? p->bytes.size : 0;
    request_answer(r, 200, json_make("{s:I, s:o, s:I, s:I, s:I, s:o, s:b}", "attempt",
                                     (json_int_t)p->attempt, "rank", rank, "offset",
                                     (json_int_t)offset, "next_offset", (json_int_t)next, "size",
                                     (json_int_t)size, "data", data, "done",
                                     (int)(done && next >= size)));
}

/* Why there is no such log; a log that may still come is not an error. */
static void log_check(struct log_task *t, bool done)
{
    const struct log_part *p = &t->part;
    const long long id = t->row.id;
    if (t->err.code || p->bytes.size >= 0)
        return;
    if (done && p->setup)
        err_set(&t->err, ERR_NOT_FOUND, "attempt %lld of job %lld ran no setup", (long long)p->attempt, id);
    else if (done && p->rank != 0)
        err_set(&t->err, ERR_NOT_FOUND, "attempt %lld of job %lld has no log of rank %lld",
                (long long)p->attempt, id, (long long)p->rank);
    else if (p->attempt == t->row.attempt && t->row.np > 0 && p->rank >= t->row.np)
        err_set(&t->err, ERR_NOT_FOUND, "job %lld has only ranks 0 to %lld, not %lld", id,
                (long long)t->row.np - 1, (long long)p->rank);
}

/* After the read: answers, or sleeps until there is more. The memo keeps where it was: offset + 1 and size. */
static void log_read_done(struct request *r, struct log_task *t)
{
    const struct log_part *p = &t->part;
    const bool done = t->row.result[0] || p->attempt < t->row.attempt;
    log_check(t, done);
    if (t->err.code) {
        request_fail(r, &t->err, NULL);
    } else if (p->bytes.got == 0 && !done && p->wait_s > 0 && !request_over(r)) {
        request_memo(r)[0] = p->bytes.offset + 1;
        request_memo(r)[1] = p->bytes.size;
        request_sleep(r, t->row.id, clamp(p->wait_s, 0, WAIT_MAX_S) * 1000);
        if (t->dir[0])
            request_watch(r, t->dir);
    } else {
        log_answer(r, p, done);
    }
}

static int log_parse(struct log_part *p, struct request *r)
{
    if (request_number(&p->attempt, r, "attempt", 0) < 0 || request_number(&p->rank, r, "rank", 0) < 0 ||
        request_number(&p->setup, r, "setup", 0) < 0 ||
        request_number(&p->bytes.offset, r, "offset", 0) < 0 ||
        request_number(&p->limit, r, "limit", 65536) < 0 || request_number(&p->wait_s, r, "wait_s", 0) < 0)
        return -1;
    p->limit = clamp(p->limit, 4, LOG_MAX);
    return 0;
}

static void log_read(struct request *r, struct log_task *t)
{
    char lane[48], what[PATH_MAX + 20];
    job_dir_run(t->run_dir, sizeof(t->run_dir), request_daemon(r), t->row.id, t->part.attempt);
    snprintf(lane, sizeof(lane), "logs of %lld", (long long)t->row.id);
    snprintf(what, sizeof(what), "reading logs in %s", t->run_dir);
    request_work(r, &t->base, lane, what);
}

static void log_ask(struct request *r, struct log_task *t)
{
    struct log_part *p = &t->part;
    const int64_t *memo = request_memo(r);
    if (p->attempt <= 0)
        p->attempt = t->row.attempt;
    if (p->attempt > t->row.attempt)
        err_set(&t->err, ERR_NOT_FOUND, "job %lld has no attempt %lld", (long long)t->row.id, (long long)p->attempt);
    else if (request_closing(r) && memo[0]) /* as it was when the request fell asleep */
        p->bytes = (struct log_reader){ .offset = memo[0] - 1, .size = memo[1] };
    else if (p->attempt > 0) {
        log_read(r, t);
        return;
    }
    log_read_done(r, t);
    log_destroy(&t->base);
}

/* True: answered. */
static bool refuse_sweep(struct request *r, const struct job_row *row)
{
    struct err err = { 0 };
    const long long id = (long long)row->id;
    if (row->members <= 0)
        return false;
    err_set(&err, ERR_CONFLICT, "job %lld is a sweep; only its members have output: jobctl status %lld lists them, "
            "jobctl logs %lld_INDEX shows one member's", id, id, id);
    request_fail(r, &err, NULL);
    return true;
}

void request_logs(struct request *r)
{
    struct log_task *t = (struct log_task *)request_worked(r);
    if (t) {
        log_read_done(r, t);
        return;
    }
    if (!(t = calloc(1, sizeof(*t)))) {
        request_fail(r, &(struct err){ .code = ERR_MEMORY, .text = "out of memory" }, NULL);
        return;
    }
    t->base.work = log_work;
    t->base.destroy = log_destroy;
    if (log_parse(&t->part, r) < 0 || request_job_row(&t->row, r) < 0 || refuse_sweep(r, &t->row))
        free(t);
    else
        log_ask(r, t);
}

/* ---- the end ---- */

void request_wait(struct request *r)
{
    struct daemon *d = request_daemon(r);
    struct err err = { 0 };
    struct job_row row;
    int64_t timeout_s;
    if (request_number(&timeout_s, r, "timeout_s", WAIT_MAX_S) < 0 || request_job_row(&row, r) < 0)
        return;
    bool done = row.result[0] != 0;
    if (!done && timeout_s > 0 && !request_over(r)) {
        request_sleep(r, row.id, clamp(timeout_s, 0, WAIT_MAX_S) * 1000);
        return;
    }
    json_t *job = job_json_of_id(d, row.id, &err);
    if (job)
        request_answer(r, 200, json_make("{s:o, s:b}", "job", job, "done", (int)done));
    else
        request_fail(r, &err, NULL);
}
