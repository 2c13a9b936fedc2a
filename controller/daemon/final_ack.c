/* SPDX-License-Identifier: Apache-2.0 */
/* final_ack.c - see final_ack.h */
#include "controller/daemon/final_ack.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/os/identity.h"
#include "agent/os/log.h"
#include "controller/base/daemon.h"
#include "controller/remote/remote.h"
#include "db/attempts.h"
#include "engine/contract/err.h"

enum { LINGER_MS = 11 * 60 * 1000 };    /* slightly longer than an agent waits */

struct final_ack {
    struct daemon      *daemon;
    struct remote_link *link;
    struct attempt_row  attempt;
    struct final_ack   *next;
};

static void forget(struct final_ack *f)
{
    for (struct final_ack **p = &f->daemon->final_acks; *p; p = &(*p)->next) {
        if (*p == f) {
            *p = f->next;
            break;
        }
    }
    remote_local.close(f->link);
    free(f);
}

/* Its last event was attempt_ended: the agent only waits for its acknowledgement. */
static void hear(void *arg, enum wire_message number, const json_t *body)
{
    struct final_ack *f = arg;
    if (number != WIRE_HELLO)
        return;
    log_info(NULL, "job %lld: repeated the final ack for the agent of attempt %lld",
             (long long)f->attempt.job, (long long)f->attempt.attempt);
    json_t *ack = json_pack("{s:I, s:I, s:s, s:O}", "job", (json_int_t)f->attempt.job, "attempt",
                            (json_int_t)f->attempt.attempt, "nonce", f->attempt.nonce, "seq",
                            json_object_get(body, "last_seq"));
    if (ack)
        remote_local.send(f->link, WIRE_ACK, ack);
    forget(f);
}

static void lost(void *arg, const char *text)
{
    (void)text;
    forget(arg);
}

static int64_t acked(void *arg)
{
    const struct final_ack *f = arg;
    return f->attempt.acked;
}

static int look_after(void *ctx, const struct attempt_row *row)
{
    struct daemon *d = ctx;
    struct err err = { 0 };
    struct identity who;
    if (identity_read(&who, row->run_dir, NULL) < 0 || !identity_alive(&who))
        return 0;
    struct final_ack *f = calloc(1, sizeof(*f));
    if (!f)
        return 0;
    f->daemon = d;
    f->attempt = *row;
    const struct remote_link_spec spec = { .job = row->job, .attempt = row->attempt,
                                    .nonce = f->attempt.nonce, .run_dir = f->attempt.run_dir };
    const struct remote_link_hooks hooks = { .message = hear, .lost = lost, .acked = acked,
                                            .arg = f };
    if (remote_local.open(&f->link, &d->loop, &spec, &hooks, &err) < 0) {
        log_warn(NULL, "%s", err.text);
        free(f);
        return 0;
    }
    f->next = d->final_acks;
    d->final_acks = f;
    return 0;
}

int final_ack_open(struct daemon *d, struct err *err)
{
    return attempts_ended_since(d->store, daemon_now_ms() - LINGER_MS, look_after, d, err) < 0 ? -1
                                                                                              : 0;
}

void final_ack_close(struct daemon *d)
{
    while (d->final_acks)
        forget(d->final_acks);
}
