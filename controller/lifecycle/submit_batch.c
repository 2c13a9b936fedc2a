/* SPDX-License-Identifier: Apache-2.0 */
/* submit_batch.c - see submit_batch.h */
#include "controller/lifecycle/submit_batch.h"

#include "agent/os/log.h"
#include "controller/base/daemon.h"
#include "controller/http/server.h"
#include "controller/job/active_jobs.h"
#include "controller/job/job.h"
#include "controller/job/job_code.h"
#include "controller/job/job_env.h"
#include "controller/job/job_file.h"
#include "controller/job/job_store.h"
#include "controller/lifecycle/reserve.h"
#include "controller/nodes/fleet.h"
#include "db/store.h"
#include "db/submit_keys.h"

/* Opens the batch before the first job is stored. */
static int join(struct daemon *d, struct err *err)
{
    struct submit_batch *in = d->submit_batch;
    if (in->open)
        return 0;
    if (store_begin(d->store, err) < 0)
        return -1;
    in->open = true;
    in->batch++;
    in->first_id = d->next_id;
    return 0;
}

/* The job could not be stored: fail its whole batch. */
static void fail(struct daemon *d, struct err *err)
{
    struct submit_batch *in = d->submit_batch;
    reserve_explain(&d->home, err);
    if (!in->open)
        return;
    store_rollback(d->store);
    in->open = false;
    in->failed = in->batch;
    in->err = *err;
    err_prefix(&in->err, "the job was not submitted: ");
    log_error(NULL, "%lld submitted jobs were not stored: %s", (long long)(d->next_id - in->first_id), err->text);
    for (int64_t id = d->next_id; id-- > in->first_id;) {
        struct job *job = active_jobs_find(d->active_jobs, id);
        if (job)
            active_jobs_remove(d->active_jobs, job);
        job_code_discard(d, id);
        job_env_discard(d, id);
        server_wake(d->server, id);
    }
    d->next_id = in->first_id;
}

int submit_batch_submit(struct job *job, const struct submit_content *content, struct err *err)
{
    struct daemon *d = job->daemon;
    struct core_output out = { 0 };
    const struct core_input in = { .kind = CORE_SUBMIT, .at_ms = daemon_now_ms(), .body = content->body };
    if (job_core_step(&job->core, &in, &out, err) < 0)
        return -1;
    int rc = join(d, err);
    if (rc == 0)
        rc = job_store_submit(job, &out, content->yaml, content->canonical, err);
    if (rc == 0 && content->key)
        rc = submit_keys_put(d->store, content->key, job->core.id, content->digest, err);
    if (rc == 0)
        rc = active_jobs_add(d->active_jobs, job, err);
    core_output_fini(&out);
    if (rc < 0) {
        fail(d, err);
        return -1;
    }
    d->next_id = job->core.id + 1;
    return 0;
}

/* From here on the job can be recovered even without the store. */
static void write_file(const struct job *job)
{
    struct err err = { 0 };
    if (job_file_write(job, false, &err) < 0)
        log_warn(NULL, "%s", err.text);
}

bool submit_batch_flush(struct daemon *d)
{
    struct submit_batch *in = d->submit_batch;
    struct err err = { 0 };
    if (!in->open)
        return false;
    if (store_commit(d->store, &err) < 0) {
        fail(d, &err);
        return true;
    }
    in->open = false;
    for (int64_t id = in->first_id; id < d->next_id; id++) {
        struct job *job = active_jobs_find(d->active_jobs, id);
        if (job)
            write_file(job);
        daemon_test_hook(d);
        if (job)
            fleet_note(job);
        server_wake(d->server, id);
    }
    fleet_dirty(d);
    return true;
}
