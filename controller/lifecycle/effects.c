/* SPDX-License-Identifier: Apache-2.0 */
/* effects.c - see effects.h */
#include "controller/lifecycle/effects.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/os/log.h"
#include "controller/attempt/followers.h"
#include "controller/attempt/job_attempt.h"
#include "controller/base/daemon.h"
#include "controller/base/file_work.h"
#include "controller/http/server.h"
#include "controller/job/active_jobs.h"
#include "controller/job/job.h"
#include "controller/job/job_code.h"
#include "controller/job/job_dir.h"
#include "controller/job/job_env.h"
#include "controller/job/job_store.h"
#include "controller/lifecycle/reclaim.h"
#include "controller/lifecycle/sweeps.h"
#include "controller/nodes/fleet.h"
#include "engine/base/err.h"

enum { PATIENCE_MS = 30000 };   /* a copy of the code may be large */

/* The directories of an attempt, and the copy of the code, made by a thread before its agent is started there. */
struct start_task {
    struct file_task     base;
    int64_t              job, attempt;
    struct job_dir_files files;
    char                 run_dir[PATH_MAX];
    struct err           err;
};

static void start_work(struct file_task *task)
{
    struct start_task *t = (struct start_task *)task;
    if (job_dir_files_write(&t->files, &t->err) == 0 && job_dir_make(t->run_dir, &t->err) == 0)
        job_code_unpack(t->files.dir, &t->err);
}

static void start_destroy(struct file_task *task)
{
    struct start_task *t = (struct start_task *)task;
    job_dir_files_fini(&t->files);
    free(t);
}

/* The job, if this attempt is still its newest. */
static struct job *start_job(const struct start_task *t)
{
    struct job *job = active_jobs_find(((struct daemon *)t->base.owner)->active_jobs, t->job);
    return job && job->core.live && job->core.attempt == t->attempt ? job : NULL;
}

static void start_failed(int64_t job, const struct err *err)
{
    char tag[24];
    snprintf(tag, sizeof(tag), "%lld", (long long)job);
    log_error(tag, "%s", err->text);     /* the attempt will report the missing directory */
}

static void start_done(struct file_task *task)
{
    const struct start_task *t = (const struct start_task *)task;
    struct job *job = start_job(t);
    if (t->err.code)
        start_failed(t->job, &t->err);
    if (job)
        job_attempt_open(job, true);
    start_destroy(task);
}

/* Shown as what the job waits for. */
static void start_late(struct file_task *task)
{
    struct start_task *t = (struct start_task *)task;
    struct job *job = start_job(t);
    struct err err = { 0 };
    file_work_why(((struct daemon *)task->owner)->files, task, &err);
    start_failed(t->job, &err);
    if (!job)
        return;
    snprintf(job_texts(job)->waits, sizeof(job->texts->waits), "%.*s", (int)sizeof(job->texts->waits) - 1, err.text);
    err_make_printable(job->texts->waits);
}

static int start_begin(struct start_task *t, struct job *job, struct err *err)
{
    char lane[48], what[PATH_MAX + 16];
    t->base = (struct file_task){ start_work, start_done, start_late, start_destroy, .owner = job->daemon };
    t->job = job->core.id;
    t->attempt = job->core.attempt;
    snprintf(t->run_dir, sizeof(t->run_dir), "%s", job->attempt->run_dir);
    if (job_code_dir(what, sizeof(what), job->daemon, t->job))
        t->base.patience_ms = PATIENCE_MS;
    snprintf(lane, sizeof(lane), "start of %lld", (long long)t->job);
    snprintf(what, sizeof(what), "making %s", t->run_dir);
    if (job_dir_files_init(&t->files, job->daemon, t->job, err) < 0)
        return -1;
    return file_work_begin(job->daemon->files, &t->base, lane, what, err);
}

static void start(struct job *job)
{
    struct err err = { 0 };
    struct start_task *t = calloc(1, sizeof(*t));
    if (t && start_begin(t, job, &err) == 0)
        return;
    if (!t)
        err_set(&err, ERR_MEMORY, "out of memory to start an attempt");
    start_failed(job->core.id, &err);
    if (t)
        start_destroy(&t->base);
    job_attempt_open(job, true);
}

static void report(struct job *job)
{
    struct daemon *d = job->daemon;
    const struct job_core c = job->core;
    const int64_t sweep_of = job_sweep_of(job);
    const bool sweep = job->sweep != NULL;
    job_env_end(d, c.id, job->spec.origin);
    fleet_forget(job);
    active_jobs_remove(d->active_jobs, job);
    fleet_dirty(d);
    if (sweep)
        sweeps_stop_members(d, c.id, c.reason, false);
    sweeps_member_done(d, sweep_of, c.result);
}

void effect_perform(struct job *job, enum job_effect effect)
{
    struct daemon *d = job->daemon;
    fleet_note(job);
    if (!job->core.live) {
        followers_dismiss(job);
        job_attempt_close(job);
    }
    switch (effect) {
    case DO_NOTHING:
    case JOB_EFFECTS:
        return;
    case DO_SCHEDULE:
        fleet_dirty(d);
        return;
    case DO_START:
        start(job);
        return;
    case DO_ATTACH:
        if (job->core.live)
            job_attempt_open(job, false);
        else
            fleet_dirty(d);
        return;
    case DO_LAUNCH:
        job_attempt_launch(job);
        return;
    case DO_STOP:
        job_attempt_stop(job);
        return;
    case DO_REPORT:
        report(job);
        return;
    }
}

void effect_applied(struct job *job, const struct event_source *told, enum job_effect effect)
{
    if (told)
        job_attempt_ack(job, told->seq);
    server_wake(job->daemon->server, job->core.id);
    reclaim_look(job);
    effect_perform(job, effect);
}
