/* SPDX-License-Identifier: Apache-2.0 */
/* active_jobs.c - see active_jobs.h */
#include "controller/job/active_jobs.h"

#include <stdlib.h>
#include <string.h>

#include "controller/job/job.h"
#include "engine/base/err.h"

int active_jobs_add(struct active_jobs *r, struct job *job, struct err *err)
{
    if (r->count > 0 && r->jobs[r->count - 1]->core.id >= job->core.id)
        return err_set(err, ERR_BUG, "job %lld was added out of order", (long long)job->core.id);
    if (r->count == r->room) {
        size_t room = r->room ? 2 * r->room : 64;
        struct job **jobs = reallocarray(r->jobs, room, sizeof(*jobs));
        if (!jobs)
            return err_set(err, ERR_MEMORY, "out of memory for %zu jobs", room);
        r->jobs = jobs;
        r->room = room;
    }
    r->jobs[r->count++] = job;
    return 0;
}

/* Index of the first job whose id is at least `id`. */
static size_t lower_bound(const struct active_jobs *r, int64_t id)
{
    size_t low = 0, high = r->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (r->jobs[mid]->core.id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

struct job *active_jobs_find(const struct active_jobs *r, int64_t id)
{
    size_t i = lower_bound(r, id);
    return i < r->count && r->jobs[i]->core.id == id ? r->jobs[i] : NULL;
}

int active_jobs_note(struct active_jobs *r, struct job *job)
{
    return job->core.attempt > 0 ? job_order_put(&r->begun, job->core.id, 0, job) : 0;
}

struct job *active_jobs_begun(const struct active_jobs *r, size_t i)
{
    return job_order_at(&r->begun, i)->of;
}

void active_jobs_remove(struct active_jobs *r, struct job *job)
{
    size_t i = lower_bound(r, job->core.id);
    job_order_drop(&r->begun, job->core.id, 0);
    if (i < r->count && r->jobs[i] == job) {
        memmove(r->jobs + i, r->jobs + i + 1, (r->count - i - 1) * sizeof(*r->jobs));
        r->count--;
    }
    job_destroy(job);
}

void active_jobs_fini(struct active_jobs *r)
{
    for (size_t i = 0; i < r->count; i++)
        job_destroy(r->jobs[i]);
    free(r->jobs);
    job_order_fini(&r->begun);
    *r = (struct active_jobs){ 0 };
}
