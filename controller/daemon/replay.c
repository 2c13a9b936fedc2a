/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c - see replay.h */
#include "controller/daemon/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/os/log.h"
#include "controller/base/daemon.h"
#include "controller/daemon/takeover.h"
#include "controller/job/active_jobs.h"
#include "controller/job/job.h"
#include "controller/job/job_file.h"
#include "controller/job/job_store.h"
#include "controller/lifecycle/effects.h"
#include "controller/lifecycle/next_id.h"
#include "controller/lifecycle/sweeps.h"
#include "controller/nodes/fleet.h"
#include "db/events.h"
#include "db/jobs.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"

static int remember(void *ctx, const struct job_row *row)
{
    return takeover_ids_put(ctx, row->id);
}

struct replay {
    struct job *job;
    struct err *err;
};

static int replay_event(void *ctx, const struct event_row *row)
{
    struct replay *r = ctx;
    json_t *body = json_loads(row->body, 0, NULL);
    const struct core_event e = { .kind = event_kind_of(row->kind), .name = row->kind,
                                  .keep = true, .at_ms = row->at_ms,
                                  .from_agent = strcmp(row->source, "agent") == 0,
                                  .attempt = row->attempt, .body = body };
    int rc = body ? job_core_replay(&r->job->core, &e, r->err)
                  : err_set(r->err, ERR_DATA, "event %lld of job %lld is not JSON",
                            (long long)row->seq, (long long)row->job);
    if (rc == 0) {
        job_note(r->job, e.kind, body, row->at_ms);
        r->job->stored.last_seq = row->seq;
        if (job_file_matters(e.kind))
            r->job->matters_seq = row->seq;
    }
    json_decref(body);
    return rc;
}

/* Progress that only the row has, as of its last write. */
static void take_numbers(struct job *job, const struct job_row *row)
{
    job->retry_of = row->retry_of;
    job->core.steps = row->steps;
    job->core.step = row->step;
    job->live_stats.loss = row->loss;
    job->live_stats.samples_per_s = row->samples_per_s;
    if (strcmp(row->state, job_state_name(job->core.state)) != 0)
        log_warn(NULL, "job %lld: state is %s in its row but %s by its events; using the events", (long long)row->id,
                 row->state, job_state_name(job->core.state));
}

/* What is left of durations that began before this program; never more than all of it. In the boot in which they
 * began, a wall clock that was set meanwhile does not matter; after a reboot it is the only clock. */
static void restart_clocks(struct job *job)
{
    struct clock_jump clock;
    struct clock_change change;
    if (job->core.boot && job->core.boot == job->daemon->machine.boot)
        job->times.clock = job->core.clock;
    job_clock_look(job, &clock, &change);
    job->daemon->clock.suspended_ms += change.suspended_ms;
    const int64_t wall_ms = daemon_now_ms() - change.jump_ms, all_ms = job->spec.max_duration_ms;
    const int64_t left_ms = job->core.started_ms + job->times.lease_ms + all_ms - wall_ms;
    job->times.ready_ms = clock_ms() + job_core_backoff_left(&job->core, wall_ms);
    if (job->core.started_ms)
        job->times.limit_ms = clock_boot_ms() + (left_ms < 0 ? 0 : left_ms < all_ms ? left_ms : all_ms);
}

int replay_job(struct job **out, struct daemon *d, int64_t id, struct err *err)
{
    struct job_row row;
    json_t *spec = NULL;
    struct job *job = NULL;
    int rc = -1;
    if (jobs_get(&row, d->store, id, err) < 0 || !(spec = job_store_spec(d->store, id, err)))
        goto out;
    job = job_create(d, id, spec, err);
    struct replay r = { job, err };
    if (!job || events_each(d->store, id, 0, INT64_MAX, replay_event, &r, err) < 0)
        goto out;
    take_numbers(job, &row);
    if (job->core.attempt > 0) {
        job->attempt = calloc(1, sizeof(*job->attempt));
        if (!job->attempt || attempts_get(job->attempt, d->store, id, job->core.attempt, err) < 0)
            goto out;
    }
    *out = job;
    job = NULL;
    rc = 0;
out:
    job_destroy(job);
    json_decref(spec);
    return rc;
}

static int replay_one(struct takeover *t, int64_t id, struct err *err)
{
    struct daemon *d = t->daemon;
    struct job *job;
    if (takeover_job(&job, t, id, replay_job, err) < 0)
        return -1;
    if (!job)
        return 0;
    if (job->core.state == JOB_DONE) {      /* by its job.json, or by its events if its row is damaged */
        struct job_row row;
        job_row_make(&row, job);
        const int rc = jobs_update(d->store, &row, err);
        job_destroy(job);
        return rc;
    }
    restart_clocks(job);
    if (active_jobs_add(d->active_jobs, job, err) == 0)
        return 0;
    job_destroy(job);
    return -1;
}

/* An id is never given to two jobs, even if the store was lost or is older than the directories. */
static int begin(struct takeover *t, struct daemon *d, struct err *err)
{
    const int64_t kept = next_id_read(d->home.path);
    if (takeover_begin(t, d, err) < 0 || jobs_next_id(&d->next_id, d->store, err) < 0)
        return -1;
    if (d->next_id <= t->newest)
        d->next_id = t->newest + 1;
    if (d->next_id < kept)
        d->next_id = kept;
    return 0;
}

int replay_all(struct daemon *d, struct err *err)
{
    struct takeover t;
    struct ids ids = { 0 };
    int rc = -1;
    if (begin(&t, d, err) < 0 ||
        jobs_each(d->store, true, 0, INT64_MAX, remember, &ids, err) < 0)
        goto out;
    for (size_t i = ids.count; i-- > 0;)        /* the list is newest first */
        if (replay_one(&t, ids.list[i], err) < 0)
            goto out;
    if (takeover_end(&t, err) < 0)
        goto out;
    if (d->store_state.lost[0])
        log_warn(NULL, "%s", d->store_state.lost);
    d->fleet->member = sweeps_member;
    d->fleet->settle = sweeps_settle;
    sweeps_recall(d);
    for (size_t i = 0; i < d->active_jobs->count; i++)
        effect_perform(d->active_jobs->jobs[i], job_fsm_resume(d->active_jobs->jobs[i]->core.state));
    fleet_dirty(d);                 /* also for the time limits of running jobs */
    if (d->active_jobs->count > 0)
        log_info(NULL, "loaded %zu unfinished jobs", d->active_jobs->count);
    rc = 0;
out:
    free(ids.list);
    return rc;
}
