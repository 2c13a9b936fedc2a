/* SPDX-License-Identifier: Apache-2.0 */
/* request_live.c - streams of server-sent events: all jobs, and one job with its events
 *
 * In the first, an event's id is the daemon's start and the number of the change (server.h); in the second, the seq of
 * the job's event, which outlives the daemon. A client that comes back with `Last-Event-ID` gets what it missed. Rows
 * are sent when they differ from what this client has: numbers of running jobs change without an event.
 */
#include "controller/requests/requests.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "controller/base/daemon.h"
#include "controller/requests/job_json.h"
#include "controller/requests/request_job.h"
#include "controller/http/request.h"
#include "controller/http/server.h"
#include "controller/job/active_jobs.h"
#include "controller/job/job.h"
#include "db/events.h"
#include "db/jobs.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"

enum { TICK_MS = 1000, WAITING_EVERY = 10, EVENTS_MAX = 10000 };

struct live {
    int64_t    job;     /* 0: all */
    int64_t    at;      /* the last change, or the last event of the job, that the client knows */
    int        turn;
    bool       begun, gone;     /* gone: the client knows that the job was removed */
    bool       missed;          /* the client has to read everything again */
    json_t    *seen;    /* id of a job: digest of the row that the client has */
    struct buf out;
};

static void live_drop(void *state)
{
    struct live *l = state;
    json_decref(l->seen);
    buf_fini(&l->out);
    free(l);
}

/* FNV-1a, to detect that a row has changed. */
static json_int_t digest_of(const char *text)
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return (json_int_t)(h >> 1);
}

static void put_message(struct live *l, const char *id, const char *kind, const json_t *data)
{
    char *text = json_dumps(data, JSON_COMPACT);
    if (id)
        buf_print(&l->out, "id: %s\n", id);
    if (text)
        buf_print(&l->out, "event: %s\ndata: %s\n\n", kind, text);
    free(text);
}

/* Sends the row if it differs; quiet: takes it as known. */
static void put_row(struct live *l, struct daemon *d, const char *id, bool quiet)
{
    json_t *row = job_json_of_id(d, strtoll(id, NULL, 10), NULL);
    char *text = row ? json_dumps(row, JSON_COMPACT) : NULL;
    const json_int_t digest = text ? digest_of(text) : 0;
    if (!row && !l->gone) {
        l->gone = l->job > 0;
        json_t *gone = json_make("{s:I}", "id", (json_int_t)strtoll(id, NULL, 10));
        put_message(l, NULL, "gone", gone);
        json_decref(gone);
    } else if (text && digest != json_integer_value(json_object_get(l->seen, id))) {
        json_object_set_new(l->seen, id, json_integer(digest));
        if (!quiet)
            buf_print(&l->out, "event: job\ndata: %s\n\n", text);
    }
    if (!l->job && (!row || strcmp(json_string_value(json_object_get(row, "state")), "done") == 0))
        json_object_del(l->seen, id);       /* it is not checked again */
    free(text);
    json_decref(row);
}

static char *taken(struct live *l)
{
    return l->out.size ? buf_take(&l->out) : NULL;
}

/* ---- all jobs ---- */

static void add_id(json_t *ids, int64_t id)
{
    char key[24];
    snprintf(key, sizeof(key), "%" PRId64, id);
    json_object_set_new(ids, key, json_true());
}

/* Adds the jobs that changed since l->at; -1: some changes are no longer known. */
static int add_changed(json_t *ids, const struct live *l, const struct server *s)
{
    for (int64_t n = l->at + 1; n <= server_changes(s); n++) {
        const int64_t id = server_change(s, n);
        if (id < 0)
            return -1;
        if (id > 0)
            add_id(ids, id);
    }
    return 0;
}

/* Jobs whose numbers may have changed; for waiting jobs that is the reason, which may be a little older. */
static void add_active(json_t *ids, const struct active_jobs *all, bool waiting)
{
    for (size_t i = 0; waiting && i < all->count; i++)
        add_id(ids, all->jobs[i]->core.id);
    for (size_t i = 0; !waiting && i < all->begun.count; i++)
        add_id(ids, active_jobs_begun(all, i)->core.id);
}

/* The place in the stream: with `missed`, the client has to read the list again. */
static void put_place(struct live *l, const struct daemon *d)
{
    char id[64];
    json_t *nothing = json_object();
    l->at = server_changes(d->server);
    snprintf(id, sizeof(id), "%" PRId64 "-%" PRId64, d->started_ms, l->at);
    put_message(l, id, l->missed ? "reset" : "at", nothing);
    json_decref(nothing);
}

static char *more_jobs(struct request *r, void *state)
{
    struct live *l = state;
    struct daemon *d = request_daemon(r);
    const int64_t before = l->at;
    json_t *ids = json_object();
    const char *id;
    json_t *unused;
    void *next;
    if (!l->missed && add_changed(ids, l, d->server) < 0)
        l->missed = true;
    add_active(ids, d->active_jobs, l->turn++ % WAITING_EVERY == 0);
    json_object_foreach_safe (ids, next, id, unused)
        put_row(l, d, id, l->missed);
    if (!l->begun || l->missed || server_changes(d->server) != before)
        put_place(l, d);
    l->begun = true;
    l->missed = false;
    json_decref(ids);
    return taken(l);
}

static struct live *live_new(struct request *r, int64_t job)
{
    struct live *l = calloc(1, sizeof(*l));
    if (l && (l->seen = json_object())) {
        l->job = job;
        return l;
    }
    free(l);
    request_fail(r, &(struct err){ .code = ERR_MEMORY, .text = "out of memory for a stream" }, NULL);
    return NULL;
}

void request_live(struct request *r)
{
    const struct daemon *d = request_daemon(r);
    const char *last = request_header(r, "Last-Event-ID");
    char *end = NULL;
    struct live *l = live_new(r, 0);
    if (!l)
        return;
    const int64_t start = last ? strtoll(last, &end, 10) : -1;
    l->at = end && *end == '-' ? strtoll(end + 1, NULL, 10) : 0;
    l->missed = start != d->started_ms || l->at < 0 || l->at > server_changes(d->server);
    request_stream(r, more_jobs, l, live_drop, 0, TICK_MS);
}

/* ---- one job ---- */

static int put_event(void *ctx, const struct event_row *row)
{
    struct live *l = ctx;
    char id[24];
    json_t *event = request_event_json(row);
    snprintf(id, sizeof(id), "%" PRId64, row->seq);
    put_message(l, id, "event", event);
    json_decref(event);
    l->at = row->seq;
    return 0;
}

static char *more_of_job(struct request *r, void *state)
{
    struct live *l = state;
    struct daemon *d = request_daemon(r);
    char id[24];
    snprintf(id, sizeof(id), "%" PRId64, l->job);
    events_each(d->store, l->job, l->at, EVENTS_MAX, put_event, l, NULL);
    put_row(l, d, id, false);
    return taken(l);
}

void request_live_job(struct request *r)
{
    const char *last = request_header(r, "Last-Event-ID");
    struct job_row row;
    struct live *l = request_job_row(&row, r) == 0 ? live_new(r, row.id) : NULL;
    if (!l)
        return;
    l->at = last ? strtoll(last, NULL, 10) : 0;
    request_stream(r, more_of_job, l, live_drop, l->job, TICK_MS);
}
