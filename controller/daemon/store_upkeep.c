/* SPDX-License-Identifier: Apache-2.0 */
/* store_upkeep.c - see store_upkeep.h */
#include "controller/daemon/store_upkeep.h"

#include <stdlib.h>

#include "agent/os/log.h"
#include "controller/base/daemon.h"
#include "db/shrink_pace.h"
#include "db/store.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"

enum { PAGES = 128, AGAIN_MS = 100, BUSY_MS = 1000, IDLE_MS = 5000, FAILED_MS = 60 * 1000 };

struct store_upkeep {
    struct daemon *daemon;
    uv_timer_t     timer;
    bool           failed;      /* reported once */
    struct shrink_pace pace;
};

static void say_failed(struct store_upkeep *u, const struct err *err)
{
    if (!u->failed)
        log_warn(NULL, "cannot shrink the store: %s; trying again", err->text);
    u->failed = true;
}

/* Does a portion of the work; *left: there is more. */
static int keep(bool *left, struct store_upkeep *u, struct err *err)
{
    struct store *s = u->daemon->store;
    const bool may_shrink = shrink_pace_allows(&u->pace, store_rows_written(s), clock_ms());
    const int rc = may_shrink ? store_shrink(left, s, PAGES, err) : 0;
    u->pace.rows = store_rows_written(s);       /* rows that store_shrink() wrote do not count */
    return rc;
}

static void look(uv_timer_t *timer)
{
    struct store_upkeep *u = timer->data;
    struct err err = { 0 };
    bool left = false;
    const int rc = keep(&left, u, &err);
    if (rc < 0)
        say_failed(u, &err);
    else
        u->failed = false;
    uv_timer_start(timer, look, rc < 0 ? FAILED_MS : left ? AGAIN_MS : u->pace.busy ? BUSY_MS : IDLE_MS, 0);
}

int store_upkeep_open(struct daemon *d, struct err *err)
{
    struct store_upkeep *u = calloc(1, sizeof(*u));
    if (!u)
        return err_set(err, ERR_MEMORY, "out of memory for the upkeep of the store");
    u->daemon = d;
    u->timer.data = u;
    u->pace.looked_ms = clock_ms();
    d->store_upkeep = u;
    uv_timer_init(&d->loop, &u->timer);
    return uv_timer_start(&u->timer, look, AGAIN_MS, 0) == 0 ? 0 : err_set(err, ERR_BUG, "no timer");
}

static void closed(uv_handle_t *timer)
{
    free(timer->data);
}

void store_upkeep_close(struct daemon *d)
{
    if (d->store_upkeep)
        uv_close((uv_handle_t *)&d->store_upkeep->timer, closed);
    d->store_upkeep = NULL;
}
