/* SPDX-License-Identifier: Apache-2.0 */
/* job_json.c - see job_json.h */
#include "controller/requests/job_json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "controller/base/daemon.h"
#include "controller/base/utc.h"
#include "controller/job/active_jobs.h"
#include "controller/job/job.h"
#include "controller/job/job_file.h"
#include "controller/job/job_view.h"
#include "controller/job/sweep.h"
#include "controller/lifecycle/sweeps.h"
#include "controller/nodes/fleet.h"
#include "controller/remote/remote.h"
#include "db/checkpoints.h"
#include "db/removed.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"
#include "engine/base/text_append.h"

static json_t *known(int64_t value)
{
    return value >= 0 ? json_integer(value) : json_null();
}

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *text_or_null(const char *text)
{
    return text && text[0] ? json_text(text) : json_null();
}

/* Numbers that are not stored: those of a job that is not in memory are null. still_ms: the time without a step, after
 * which there is no speed. */
static json_t *add_live(json_t *o, const struct job_live_stats *p, int64_t still_ms)
{
    json_object_set_new(o, "still_s", still_ms > 0 ? json_real((double)still_ms / 1000) : json_null());
    json_object_set_new(o, "epoch", p ? number(p->epoch) : json_null());
    json_object_set_new(o, "epochs", p ? number(p->epochs) : json_null());
    json_object_set_new(o, "step_ms", p && !still_ms ? number(p->step_ms) : json_null());
    json_object_set_new(o, "tokens_per_s", p && !still_ms ? number(p->tokens_per_s) : json_null());
    if (still_ms)
        json_object_set_new(o, "samples_per_s", json_null());
    return o;
}

/* The productive share of its ranks' time. */
static json_t *goodput(int64_t productive_ms, int64_t busy_ms)
{
    return busy_ms > 0 ? json_real((double)productive_ms / (double)busy_ms) : json_null();
}

static json_t *eta(const struct job *job)
{
    const struct job_core *c = &job->core;
    if (c->goodput.disk_since_ms || job_still_since(job, daemon_now_ms())) /* training is paused, or its speed is an old one */
        return json_null();
    if (c->state == JOB_RUNNING && c->steps <= 0)
        return number(job->live_stats.eta_s);
    if (c->state != JOB_RUNNING || c->steps <= 0 || c->step < 0 ||
        !isfinite(job->live_stats.step_ms))
        return json_null();
    return json_real((double)(c->steps - c->step) * job->live_stats.step_ms / 1000);
}

static json_t *job_json_make(const struct job_row *r, json_t *checkpoint, json_t *eta_s,
                             const char *phase, const char *channel_text)
{
    json_t *after = json_loads(r->after, 0, NULL), *point = json_loads(r->point, 0, NULL);
    return json_make(
        "{s:I, s:s, s:s, s:o, s:s, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:I,"
        " s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "id", (json_int_t)r->id, "name", r->name, "state", r->state, "result",
        text_or_null(r->result), "reason", r->reason, "attempt", (json_int_t)r->attempt,
        "generation", (json_int_t)r->generation, "step", known(r->step), "steps", known(r->steps),
        "loss", number(r->loss), "samples_per_s", number(r->samples_per_s), "goodput",
        goodput(r->productive_ms, r->busy_ms), "eta_s", eta_s, "checkpoint", checkpoint,
        "exit_code", known(r->exit_code), "held", (int)r->held, "priority",
        (json_int_t)r->priority, "after", after ? after : json_array(), "retry_of",
        known(r->retry_of), "submitted_at", utc_json(r->submitted_ms), "started_at",
        utc_json(r->started_ms), "ended_at", utc_json(r->ended_ms), "phase", text_or_null(phase),
        "np", known(r->np), "agent_channel", text_or_null(channel_text),
        "sweep", r->sweep > 0 ? json_integer(r->sweep) : json_null(), "index",
        r->sweep > 0 ? json_integer(r->sweep_index) : json_null(), "point", point ? point : json_null());
}

const char *job_json_obstacle(const struct job *job)
{
    const enum job_state state = job->core.state;
    if (state == JOB_RUNNING && job->texts->slow[0])
        return job->texts->slow;
    if (state != JOB_STARTING && state != JOB_RUNNING)
        return NULL;
    return job->texts->waits[0] ? job->texts->waits
           : job->texts->absent[0] ? job->texts->absent : job->texts->lease[0] ? job->texts->lease : NULL;
}

/* The reason in one line, as shown in a row. */
static void write_reason(char *out, unsigned long size, const struct job *job)
{
    const struct job_core *c = &job->core;
    const char *obstacle = job_json_obstacle(job);
    out[0] = '\0';
    if (obstacle) {
        text_append(out, size, "%s", obstacle);
        return;
    }
    if (c->state == JOB_RUNNING && job->texts->nccl[0]) {
        text_append(out, size, "%s", job->texts->nccl);
        return;
    }
    if (c->state == JOB_RUNNING && job->texts->channel_text[0] && job->agents.channel_degraded) {
        text_append(out, size, "its agent is connected %s", job->texts->channel_text);
        return;
    }
    const char *frees = job->texts->frees[0] ? job->texts->frees : job->texts->by_hand;
    if (c->goodput.disk_since_ms && frees[0]) {
        const size_t rest = size - strlen(frees) - sizeof("; ");
        text_append(out, size, "%.*s; %s", (int)(rest < size ? rest : 0), c->reason, frees);
        err_make_printable(out);
        return;
    }
    const int64_t now_ms = daemon_now_ms(), since_ms = job_still_since(job, now_ms);
    if (since_ms) {
        char age[32];
        job_view_duration(age, sizeof(age), (double)(now_ms - since_ms) / 1000);
        text_append(out, size, "no step for %s", age);
        return;
    }
    if (!job_core_waits(c)) {
        text_append(out, size, "%s", c->reason);
        return;
    }
    char wait[240], users[200] = "", members[200] = "";
    if (job->sweep)
        sweep_text(members, sizeof(members), job->sweep);
    if (members[0] && !sweep_may_start(job->sweep)) {
        text_append(out, size, "%s", members);
        if (sweep_next(job->sweep) >= 0)
            text_append(out, size, "; at most %lld at once (max_parallel)", (long long)job->sweep->max_parallel);
        return;
    }
    fleet_explain(job->daemon);
    if ((job->filed.verdict.word == SCHED_HOST || job->filed.verdict.word == SCHED_DIR) && job->texts->unplaced[0])
        snprintf(wait, sizeof(wait), "%s", job->texts->unplaced);
    else
        sched_text(wait, sizeof(wait), &job->filed.verdict, clock_ms());
    const enum sched_word word = job->filed.verdict.word;
    const long long other = job->filed.verdict.other;
    if (word == SCHED_GPUS || word == SCHED_CPUS)
        fleet_users(users, sizeof(users), job->daemon, word == SCHED_GPUS);
    if (users[0])
        text_append(wait, sizeof(wait), " (%s)", users);
    if (users[0] && other > 0)
        text_append(wait, sizeof(wait), "; to use %s: jobctl edit %lld --set resources.%s=%lld", other == 1 ? "it" : "them",
                    (long long)c->id, word == SCHED_GPUS ? "gpus" : "cpus", other);
    if (c->state == JOB_RECOVERING) {
        const bool full = job_core_disk_wait(c) && frees[0];
        text_append(out, size, "%s%s%s%s%s", c->reason, wait[0] ? "; " : "", wait, full ? "; " : "", full ? frees : "");
        err_make_printable(out);
    }
    else
        text_append(out, size, "%s%s%s", members, members[0] ? "; " : "", wait);
}

/* Where it runs, unless that is this machine. */
static json_t *host_of(const struct job *job)
{
    const size_t more = json_array_size(job->nodes.names);
    if (!job->core.live || job->need.remote == &remote_local)
        return json_null();
    return more > 1 ? json_text_f("%.80s+%zu", json_string_value(json_array_get(job->nodes.names, 0)), more - 1)
                    : json_text(job->core.node);
}

json_t *job_json_of_job(const struct job *job)
{
    struct job_row row;
    const struct job_core *c = &job->core;
    job_row_make(&row, job);
    write_reason(row.reason, sizeof(row.reason), job);
    if (job->sweep && job->sweep->live > 0)
        snprintf(row.state, sizeof(row.state), "%s", job_state_name(JOB_RUNNING));
    json_t *checkpoint = json_null();
    if (job->checkpoint_path && c->checkpoint >= 0)
        checkpoint = json_make("{s:I, s:s}", "step", (json_int_t)c->checkpoint, "path", job->checkpoint_path);
    struct goodput spent;
    const int64_t now_ms = daemon_now_ms(), since_ms = job_still_since(job, now_ms);
    job_spent(&spent, job, now_ms);
    row.productive_ms = spent.ms[BUCKET_PRODUCTIVE];
    row.busy_ms = c->started_ms ? job_goodput_busy_ms(&spent) : 0;
    json_t *o = job_json_make(&row, checkpoint, eta(job), c->state == JOB_RUNNING
                              ? job->live_stats.phase : "",
                              job->texts->channel_text);
    json_object_set_new(o, "members", sweeps_json(job->daemon, &row));
    json_object_set_new(o, "host", host_of(job));
    json_t *gpus = c->live ? json_object_get(json_object_get(job->nodes.placed, "planned"), "gpus") : NULL;
    json_object_set_new(o, "gpus", gpus ? json_incref(gpus) : json_null());
    return add_live(o, &job->live_stats, since_ms ? now_ms - since_ms : 0);
}

static int newest_good(void *ctx, const struct checkpoint_row *row)
{
    json_t **out = ctx;
    if (strcmp(row->trust, "quarantined") == 0)
        return 0;
    *out = json_make("{s:I, s:s}", "step", (json_int_t)row->step, "path", row->path);
    return 1;
}

json_t *job_json_of_stored(struct daemon *d, const struct job_row *row)
{
    json_t *checkpoint = NULL;
    checkpoints_each(d->store, row->id, 8, newest_good, &checkpoint, NULL);
    json_t *o = job_json_make(row, checkpoint ? checkpoint : json_null(), json_null(), "", "");
    json_object_set_new(o, "members", sweeps_json(d, row));
    json_object_set_new(o, "host", json_null());
    json_object_set_new(o, "gpus", json_null());
    return o;
}

int job_json_row(struct job_row *row, struct daemon *d, int64_t id, struct err *err)
{
    struct removed_row removed;
    struct err none = { 0 };
    if (jobs_get(row, d->store, id, err) == 0)
        return 0;
    if (err && err->code == ERR_NOT_FOUND && removed_get(&removed, d->store, id, &none) < 0 &&
        job_file_is_job(d->home.path, id)) {
        *err = (struct err){ 0 };
        err_set(err, ERR_NOT_FOUND, "the record of job %lld is lost: the store does not have it, and its job.json is "
                "missing or damaged. Restore %.200s/jobs/%lld/job.json from a backup, then run `jobctl daemon "
                "restart`; logs and checkpoints in that directory remain", (long long)id, d->home.path, (long long)id);
    }
    return -1;
}

json_t *job_json_of_id(struct daemon *d, int64_t id, struct err *err)
{
    const struct job *job = active_jobs_find(d->active_jobs, id);
    struct job_row stored;
    json_t *row = NULL;
    if (job)
        row = job_json_of_job(job);
    else if (job_json_row(&stored, d, id, err) < 0)
        return NULL;
    else
        row = job_json_of_stored(d, &stored);
    if (!row)
        err_set(err, ERR_MEMORY, "out of memory for a job's row");
    return row;
}
