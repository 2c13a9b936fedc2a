/* SPDX-License-Identifier: Apache-2.0 */
/* intake.c - see intake.h */
#include "controller/intake.h"

#include "agent/log.h"
#include "controller/daemon.h"
#include "controller/job.h"
#include "controller/server.h"
#include "db/store.h"

int intake_join(struct daemon *d, struct err *err)
{
    struct intake *in = &d->intake;
    if (in->open)
        return 0;
    if (store_begin(d->store, err) < 0)
        return -1;
    in->open = true;
    in->batch++;
    in->first_id = d->next_id;
    return 0;
}

void intake_fail(struct daemon *d, const struct err *err)
{
    struct intake *in = &d->intake;
    if (!in->open)
        return;
    store_rollback(d->store);
    in->open = false;
    in->failed = in->batch;
    in->err = *err;
    log_error(NULL, "%lld submits were not stored: %s", (long long)(d->next_id - in->first_id),
              err->text);
    for (int64_t id = d->next_id; id-- > in->first_id;) {
        struct job *job = roster_find(&d->roster, id);
        if (job)
            roster_remove(&d->roster, job);
        server_wake(d->server, id);
    }
    d->next_id = in->first_id;
}

bool intake_flush(struct daemon *d)
{
    struct intake *in = &d->intake;
    struct err err = { 0 };
    if (!in->open)
        return false;
    if (store_commit(d->store, &err) < 0) {
        intake_fail(d, &err);
        return true;
    }
    in->open = false;
    for (int64_t id = in->first_id; id < d->next_id; id++) {
        daemon_test_hook(d);
        server_wake(d->server, id);
    }
    fleet_dirty(d);
    return true;
}
