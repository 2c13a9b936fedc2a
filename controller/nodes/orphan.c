/* SPDX-License-Identifier: Apache-2.0 */
/* orphan.c - see orphan.h */
#include "controller/nodes/orphan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/os/identity.h"
#include "agent/os/log.h"
#include "controller/base/daemon.h"
#include "controller/job/job_dir.h"
#include "controller/remote/remote.h"
#include "db/attempts.h"
#include "db/orphans.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"

enum {
    FIRST_CALL_MS = 1000,
    LINGER_MS = 11 * 60 * 1000          /* slightly longer than an agent waits for its last ack */
};

struct orphan {
    struct daemon       *daemon;
    const struct remote *remote;
    struct remote_link  *link;
    int                  node;
    bool                 dismiss;       /* end it; otherwise it only waits for its last ack */
    struct attempt_row   attempt;       /* `node` and `run_dir` are the orphan's */
    struct orphan       *next;
};

static void let_go(struct orphan *s)
{
    struct orphan **at = &s->daemon->orphans;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    s->remote->close(s->link);
    free(s);
}

/* One to dismiss is ended by its remote helper, which then reports; the other's last event was
 * attempt_ended: it only waits for its acknowledgement. */
static void hear(void *arg, enum wire_message number, const json_t *body)
{
    struct orphan *s = arg;
    const struct attempt_row *a = &s->attempt;
    if (s->dismiss || number != WIRE_HELLO)
        return;
    log_info(NULL, "job %lld: repeated the final ack for the agent of attempt %lld",
             (long long)a->job, (long long)a->attempt);
    json_t *ack = json_make("{s:I, s:I, s:s, s:O}", "job", (json_int_t)a->job, "attempt",
                            (json_int_t)a->attempt, "nonce", a->nonce, "seq",
                            json_object_get(body, "last_seq"));
    if (ack)
        s->remote->send(s->link, WIRE_ACK, ack);
    let_go(s);
}

static void proven_gone(void *arg, const char *text)
{
    struct orphan *s = arg;
    const struct attempt_row *a = &s->attempt;
    struct err err = { 0 };
    if (s->dismiss)
        log_info(NULL, "job %lld: the orphaned attempt %lld on %s has ended: %s", (long long)a->job,
                 (long long)a->attempt, a->node, text);
    if (s->dismiss && orphans_remove(s->daemon->store, a->job, a->attempt, s->node, &err) < 0)
        log_error(NULL, "%s", err.text);
    let_go(s);
}

static int64_t acked(void *arg)
{
    const struct orphan *s = arg;
    return s->attempt.acked;
}

/* Connects to the agent of a node of an attempt, and keeps trying. */
static void call(struct daemon *d, const struct attempt_row *row, const struct remote *remote,
                 int node, const char *host, bool dismiss)
{
    struct err err = { 0 };
    char key[48];
    struct orphan *s = calloc(1, sizeof(*s));
    if (!s)
        return;
    *s = (struct orphan){ .daemon = d, .remote = remote, .node = node, .dismiss = dismiss,
                          .attempt = *row, .next = d->orphans };
    snprintf(s->attempt.node, sizeof(s->attempt.node), "%s", host);
    job_dir_node(s->attempt.run_dir, sizeof(s->attempt.run_dir), row->run_dir, node);
    remote_key(key, sizeof(key), d->instance, row->job);
    const struct remote_link_spec spec = { .files = d->files, .job = row->job, .attempt = row->attempt,
                                    .nonce = s->attempt.nonce, .run_dir = s->attempt.run_dir,
                                    .host = s->attempt.node, .key = key, .dismiss = dismiss,
                                    .node = node, .nodes = node + 1,
                                    .delay_ms = dismiss ? FIRST_CALL_MS : 0 };
    const struct remote_link_hooks hooks = { .message = hear, .lost = proven_gone, .acked = acked,
                                      .arg = s };
    if (remote->open(&s->link, &d->loop, &spec, &hooks, &err) < 0) {
        log_warn(NULL, "%s", err.text);
        free(s);
        return;
    }
    d->orphans = s;
}

void orphan_add(struct daemon *d, const struct attempt_row *row, const struct remote *remote, int node,
                const char *host)
{
    const struct orphan_row record = { row->job, row->attempt, node, remote->name, host };
    struct err err = { 0 };
    if (orphans_put(d->store, &record, &err) < 0)
        log_error(NULL, "cannot record an orphaned agent of job %lld: %s", (long long)row->job, err.text);
    call(d, row, remote, node, host, true);
}

const char *orphan_of(const struct daemon *d, int64_t job)
{
    for (const struct orphan *s = d->orphans; s; s = s->next)
        if (s->dismiss && s->attempt.job == job)
            return s->attempt.node;
    return NULL;
}

/* ---- at the start ---- */

static int load(void *ctx, const struct orphan_row *o)
{
    struct daemon *d = ctx;
    struct attempt_row row;
    if (attempts_get(&row, d->store, o->job, o->attempt, NULL) == 0)
        call(d, &row, strcmp(o->launcher, remote_local.name) == 0 ? &remote_local : &remote_ssh,
             (int)o->node, o->host, true);
    return 0;
}

static int look_after(void *ctx, const struct attempt_row *row)
{
    struct identity who;
    if (identity_read(&who, row->run_dir, NULL) == 0 && identity_alive(&who))
        call(ctx, row, &remote_local, 0, row->node, false);
    return 0;
}

int orphan_open(struct daemon *d, struct err *err)
{
    if (orphans_each(d->store, load, d, err) < 0)
        return -1;
    return attempts_ended_since(d->store, daemon_now_ms() - LINGER_MS, look_after, d, err);
}

void orphan_close(struct daemon *d)
{
    while (d->orphans)
        let_go(d->orphans);
}
