/* SPDX-License-Identifier: Apache-2.0 */
/* shared_dir.c - see shared_dir.h */
#include "controller/nodes/shared_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/base/daemon.h"
#include "controller/job/active_jobs.h"
#include "controller/job/job.h"
#include "controller/job/job_order.h"
#include "controller/remote/remote.h"
#include "engine/base/err.h"

bool shared_dir_writes(const struct job *job)
{
    return job->spec.dir && job->core.attempt > 0;
}

/* Hosts of launch: ssh have disks of their own: a name means the same directory on the same host only. */
static bool share_a_host(const struct job *a, const struct job *b)
{
    for (size_t i = 0; i < json_array_size(a->need.hosts); i++)
        for (size_t k = 0; k < json_array_size(b->need.hosts); k++)
            if (json_equal(json_array_get(a->need.hosts, i), json_array_get(b->need.hosts, k)))
                return true;
    return !a->need.hosts;
}

static bool same_dir(const struct job *a, const struct job *b)
{
    return a->spec.dir && b->spec.dir && a->need.remote == b->need.remote &&
           strcmp(a->spec.dir, b->spec.dir) == 0 && share_a_host(a, b);
}

/* The job whose own directory the spec of `job` names, jobs/N/checkpoints of this home: N, or 0. */
static int64_t owner_id(const struct job *job)
{
    char jobs[4096], *end;
    const int n = snprintf(jobs, sizeof(jobs), "%.4000s/jobs/", job->daemon->home.path);
    if (job->need.remote != &remote_local || strncmp(job->spec.dir, jobs, (size_t)n) != 0)
        return 0;
    const long long id = strtoll(job->spec.dir + n, &end, 10);
    return *end == '/' ? id : 0;
}

static struct job *owner(const struct job *job)
{
    struct job *found = active_jobs_find(job->daemon->active_jobs, owner_id(job));
    const bool writes = found && found != job && !found->spec.dir && found->core.attempt > 0;
    return writes && found->core.state != JOB_DONE ? found : NULL;
}

int64_t shared_dir_key(const struct job *job)
{
    uint64_t hash = 1469598103934665603U;   /* FNV-1a */
    const int64_t id = job->spec.dir ? owner_id(job) : job->core.id;
    for (const char *p = job->spec.dir; id <= 0 && p && *p; p++)
        hash = (hash ^ (unsigned char)*p) * 1099511628211U;
    return id > 0 ? id : -(int64_t)(hash >> 1) - 1;
}

struct job *shared_dir_writer(const struct job *job, const struct job_order *writers)
{
    if (!job->spec.dir)
        return NULL;
    const int64_t key = shared_dir_key(job);
    for (size_t i = job_order_find(writers, key, 0); i < writers->count && job_order_at(writers, i)->a == key; i++) {
        struct job *o = job_order_at(writers, i)->of;
        if (o == job || !shared_dir_writes(o) || !same_dir(job, o))
            continue;
        if (o->core.live || job->core.attempt == 0 || o->core.id < job->core.id)
            return o;
    }
    return owner(job);
}

void shared_dir_text(struct job *job, const struct job *writer)
{
    snprintf(job_texts(job)->unplaced, sizeof(job->texts->unplaced),
             "waiting for job %lld (%.60s), which writes %.140s", (long long)writer->core.id, writer->spec.name,
             job->spec.dir);
    err_make_printable(job_texts(job)->unplaced); /* a path may be cut inside a character */
}
