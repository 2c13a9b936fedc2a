/* SPDX-License-Identifier: Apache-2.0 */
/* copy_removal.c - see copy_removal.h */
#include "controller/nodes/copy_removal.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/os/log.h"
#include "controller/base/daemon.h"
#include "controller/job/event_kind.h"
#include "controller/job/job_code.h"
#include "controller/job/job_dir.h"
#include "controller/job/job_store.h"
#include "controller/remote/remote.h"
#include "db/attempts.h"
#include "db/events.h"
#include "db/host_copies.h"
#include "engine/base/err.h"
#include "engine/base/field.h"

struct copy_removal {
    struct daemon       *daemon;
    struct remote_link  *link;
    int64_t              job;
    char                 host[ATTEMPT_NODE], nonce[ATTEMPT_NONCE];
    struct copy_removal *next;
};

static void let_go(struct copy_removal *c)
{
    struct copy_removal **at = &c->daemon->copy_removals;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    remote_ssh.close(c->link);
    free(c);
}

static void hear(void *arg, enum wire_message number, const json_t *body)
{
    (void)arg;
    (void)number;
    (void)body;
}

static void removed(void *arg, const char *text)
{
    struct copy_removal *c = arg;
    struct err err = { 0 };
    log_info(NULL, "job %lld: its copy of the code on %s: %s", (long long)c->job, c->host, text);
    if (host_copies_remove(c->daemon->store, c->job, c->host, &err) < 0)
        log_error(NULL, "%s", err.text);
    let_go(c);
}

static int64_t acked(void *arg)
{
    (void)arg;
    return 0;
}

static int call(void *ctx, const struct host_copy_row *row)
{
    struct daemon *d = ctx;
    struct err err = { 0 };
    char key[48], dir[PATH_MAX];
    struct copy_removal *c = calloc(1, sizeof(*c));
    if (!c)
        return 0;
    *c = (struct copy_removal){ .daemon = d, .job = row->job, .next = d->copy_removals };
    snprintf(c->host, sizeof(c->host), "%s", row->host);
    snprintf(c->nonce, sizeof(c->nonce), "%s", row->nonce);
    remote_key(key, sizeof(key), d->instance, row->job);
    job_dir(dir, sizeof(dir), d, row->job);
    const struct remote_link_spec spec = { .files = d->files, .job = row->job, .attempt = row->attempt,
                                           .nonce = c->nonce, .run_dir = dir, .host = c->host, .key = key,
                                           .dismiss = true, .forget = true, .nodes = 1 };
    const struct remote_link_hooks hooks = { .message = hear, .lost = removed, .acked = acked, .arg = c };
    if (remote_ssh.open(&c->link, &d->loop, &spec, &hooks, &err) < 0) {
        log_warn(NULL, "%s", err.text);
        free(c);
        return 0;
    }
    d->copy_removals = c;
    return 0;
}

/* ---- the hosts of a job ---- */

struct recording {
    struct daemon *daemon;
    struct err    *err;
};

static int record_host(const struct recording *r, const struct event_row *event, const json_t *body, const char *host)
{
    const struct host_copy_row row = { .job = event->job, .attempt = event->attempt, .host = host,
                                       .nonce = field_text(body, "nonce") };
    return host[0] && row.nonce[0] && row.attempt > 0 ? host_copies_put(r->daemon->store, &row, r->err) : 0;
}

static int look(void *ctx, const struct event_row *event)
{
    const struct recording *r = ctx;
    size_t i;
    int rc = 0;
    const json_t *one;
    if (event_kind_of(event->kind) != EVENT_PLACED)
        return 0;
    json_t *body = json_loads(event->body, 0, NULL);
    const json_t *nodes = json_object_get(body, "nodes");
    json_array_foreach (nodes, i, one)
        if (rc == 0 && json_is_string(one))
            rc = record_host(r, event, body, json_string_value(one));
    if (rc == 0 && json_array_size(nodes) == 0)
        rc = record_host(r, event, body, field_text(body, "node"));
    json_decref(body);
    return rc;
}

int copy_removal_record(struct daemon *d, int64_t job, struct err *err)
{
    char dir[PATH_MAX];
    struct recording r = { d, err };
    json_t *spec = job_code_dir(dir, sizeof(dir), d, job) ? job_store_spec(d->store, job, err) : NULL;
    const int rc = spec && remote_of_spec(spec) == &remote_ssh
                 ? events_each(d->store, job, 0, INT64_MAX, look, &r, err) : 0;
    json_decref(spec);
    return rc;
}

void copy_removal_begin(struct daemon *d, int64_t job)
{
    struct err err = { 0 };
    if (remote_ssh_there() && host_copies_each(d->store, job, call, d, &err) < 0)
        log_warn(NULL, "%s", err.text);
}

int copy_removal_open(struct daemon *d, struct err *err)
{
    return remote_ssh_there() ? host_copies_each(d->store, 0, call, d, err) : 0;
}

void copy_removal_close(struct daemon *d)
{
    while (d->copy_removals)
        let_go(d->copy_removals);
}
