/* SPDX-License-Identifier: Apache-2.0 */
/* job_apply.c - see job_apply.h */
#include "controller/job/job_apply.h"

#include <stdio.h>

#include "agent/os/log.h"
#include "controller/base/daemon.h"
#include "controller/job/active_jobs.h"
#include "controller/job/job.h"
#include "controller/job/job_store.h"
#include "engine/contract/clock.h"

static void log_change(const struct job *job, const struct job_core *was)
{
    const struct job_core *c = &job->core;
    char tag[48];
    if (c->state == was->state)
        return;
    snprintf(tag, sizeof(tag), "%lld.%lld", (long long)c->id, (long long)c->attempt);
    if (c->state == JOB_DONE)
        log_info(tag, "%s: %s", job_result_name(c->result), c->reason);
    else
        log_info(tag, "%s%s%s", job_state_name(c->state), c->reason[0] ? ": " : "", c->reason);
}

/* Durations count from here on clocks that nobody sets. */
static void start_clocks(struct job *job, const struct core_output *out)
{
    for (int i = 0; i < out->count; i++)
        if (out->events[i].kind == EVENT_RETRY)
            job->ready_ms = clock_ms() + job->core.backoff_ms;
    if (job->core.started_ms && !job->limit_ms)
        job->limit_ms = clock_boot_ms() + job->max_duration_ms;
}

int job_apply(struct job *job, const struct core_input *in, const struct event_source *told,
              struct err *err)
{
    const struct job_core was = job->core;
    const struct job_live_stats live_stats = job->live_stats;
    struct core_output out = { 0 };
    if (job_core_step(&job->core, in, &out, err) < 0)
        return -1;
    for (int i = 0; i < out.count; i++)
        job_note(job, out.events[i].kind, out.events[i].body, out.events[i].at_ms);
    if (out.count > 0) {
        if (job_store_write(job, &was, &out, told, err) < 0) {
            job->core = was;
            job->live_stats = live_stats;
            core_output_fini(&out);
            return -1;
        }
        start_clocks(job, &out);
        if (out.events[0].keep)
            daemon_test_hook(job->daemon);
    }
    const enum job_effect effect = out.effect;
    core_output_fini(&out);
    log_change(job, &was);
    job->daemon->active_jobs->applied(job, told, effect);
    return 0;
}
