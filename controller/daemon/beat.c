/* SPDX-License-Identifier: Apache-2.0 */
/* beat.c - see beat.h */
#include "controller/daemon/beat.h"

#include "agent/os/log.h"
#include "controller/base/daemon.h"
#include "controller/daemon/home_watch.h"
#include "controller/job/active_jobs.h"
#include "controller/job/job.h"
#include "controller/job/job_apply.h"
#include "controller/lifecycle/reserve.h"
#include "controller/nodes/hosts.h"
#include "controller/notify/notifier.h"
#include "engine/base/err.h"

enum { BEAT_MS = 1000 };

static void tell_log(struct daemon *d)
{
    const struct clock_reading now = clock_read();
    struct clock_change change;
    char text[400];
    if (!clock_jump_look(&d->clock.seen, &now, &change))
        return;
    d->clock.suspended_ms += change.suspended_ms;
    clock_jump_text(text, sizeof(text), &change);
    log_warn(NULL, "%s", text);
    hosts_clock_set(d, change.jump_ms);
}

/* A store that fails now is tried again at the next beat. */
static void tell_jobs(struct daemon *d)
{
    for (size_t i = d->active_jobs->count; i-- > 0;) {
        struct err err = {0};
        struct job *job = d->active_jobs->jobs[i];
        if (job->core.attempt > 0 && job_apply_clock(job, &err) < 0)
            log_error(NULL, "job %lld: %s; trying again", (long long)job->core.id, err.text);
    }
}

static void beat(uv_timer_t *timer)
{
    struct daemon *d = timer->data;
    if (home_watch_look(&d->home))
        daemon_stop(d);
    if (d->stopping)
        return;
    tell_log(d);
    tell_jobs(d);
    reserve_keep(&d->home);
    notifier_look(d);
}

void beat_open(struct daemon *d)
{
    const struct clock_reading now = clock_read();
    d->clock.seen = clock_jump_of(&now);
    uv_timer_init(&d->loop, &d->clock.beat);
    d->clock.beat.data = d;
    reserve_keep(&d->home);
    uv_timer_start(&d->clock.beat, beat, BEAT_MS, BEAT_MS);
}

void beat_close(struct daemon *d)
{
    uv_close((uv_handle_t *)&d->clock.beat, NULL);
}
