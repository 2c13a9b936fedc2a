/* SPDX-License-Identifier: Apache-2.0 */
/* effects.c - see effects.h */
#include "controller/daemon/effects.h"

#include <stdio.h>

#include "agent/os/log.h"
#include "controller/attempt/followers.h"
#include "controller/attempt/job_attempt.h"
#include "controller/base/daemon.h"
#include "controller/http/server.h"
#include "controller/job/active_jobs.h"
#include "controller/job/job.h"
#include "controller/job/job_dir.h"
#include "controller/job/job_store.h"
#include "controller/nodes/fleet.h"
#include "engine/contract/err.h"

static void start(struct job *job)
{
    struct err err = { 0 };
    struct job_dir_files files = { .yaml = NULL };
    char tag[24];
    if (job_dir_files_init(&files, job->daemon, job->core.id, &err) < 0 ||
        job_dir_files_write(&files, &err) < 0 || job_dir_make(job->attempt->run_dir, &err) < 0) {
        snprintf(tag, sizeof(tag), "%lld", (long long)job->core.id);
        log_error(tag, "%s", err.text);     /* the attempt will report the missing directory */
    }
    job_dir_files_fini(&files);
    job_attempt_open(job, true);
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
        fleet_forget(job);
        active_jobs_remove(d->active_jobs, job);
        fleet_dirty(d);
        return;
    }
}

void effect_applied(struct job *job, const struct event_source *told, enum job_effect effect)
{
    if (told)
        job_attempt_ack(job, told->seq);
    server_wake(job->daemon->server, job->core.id);
    effect_perform(job, effect);
}
