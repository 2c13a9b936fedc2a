/* SPDX-License-Identifier: Apache-2.0 */
/* requests.c - see requests.h */
#include "controller/requests.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "controller/attempt.h"
#include "controller/daemon.h"
#include "controller/job.h"
#include "controller/row.h"
#include "controller/server.h"
#include "engine/err.h"

int request_job_id(int64_t *id, struct daemon *d, const char *word, struct err *err)
{
    char *end;
    errno = 0;
    long long number = strtoll(word, &end, 10);
    if (end != word && !*end) {
        if (errno || number <= 0)
            return err_set(err, ERR_NOT_FOUND, "there is no job %.40s", word);
        *id = number;
        return 0;
    }
    return jobs_find(id, d->store, strcmp(word, "last") == 0 ? NULL : word, err);
}

void request_answer_row(struct request *r, int status, int64_t id)
{
    struct err err = { 0 };
    json_t *row = row_of_id(request_daemon(r), id, &err);
    if (row)
        request_answer(r, status, json_pack("{s:o}", "job", row));
    else
        request_fail(r, &err, NULL);
}

void request_answer_submitted(struct request *r, int64_t id, int64_t batch)
{
    const struct intake *in = &request_daemon(r)->intake;
    if (batch == in->failed)
        request_fail(r, &in->err, NULL);
    else
        request_answer_row(r, 201, id);
}

/* The job of the path if it is not done. NULL: answered. */
static struct job *open_job(struct request *r)
{
    struct daemon *d = request_daemon(r);
    struct err err = { 0 };
    struct job_row row;
    int64_t id;
    if (request_job_id(&id, d, request_job(r), &err) < 0)
        goto fail;
    struct job *job = roster_find(&d->roster, id);
    if (job)
        return job;
    if (jobs_get(&row, d->store, id, &err) == 0)
        err_set(&err, ERR_CONFLICT, "job %lld is done (%s)", (long long)id, row.result);
fail:
    request_fail(r, &err, NULL);
    return NULL;
}

static void apply_and_answer(struct request *r, struct job *job, const struct core_input *in)
{
    struct err err = { 0 };
    const int64_t id = job->core.id;
    if (job_apply(job, in, NULL, &err) < 0)
        request_fail(r, &err, NULL);
    else
        request_answer_row(r, 200, id);
}

static void cancel(struct request *r)
{
    struct job *job = open_job(r);
    if (!job)
        return;
    const char *reason = json_string_value(json_object_get(request_body(r), "reason"));
    json_t *body = json_pack("{s:s, s:b, s:b}", "reason",
                             reason && reason[0] ? reason : "on request", "limit", 0, "now",
                             json_is_true(json_object_get(request_body(r), "now")));
    const struct core_input in = { .kind = CORE_STOP, .at_ms = daemon_now_ms(), .body = body };
    apply_and_answer(r, job, &in);
    json_decref(body);
}

static void hold(struct request *r)
{
    struct job *job = open_job(r);
    const struct core_input in = { .kind = CORE_HOLD, .at_ms = daemon_now_ms() };
    if (job)
        apply_and_answer(r, job, &in);
}

static void release(struct request *r)
{
    struct job *job = open_job(r);
    const struct core_input in = { .kind = CORE_RELEASE, .at_ms = daemon_now_ms() };
    if (job)
        apply_and_answer(r, job, &in);
}

static void checkpoint(struct request *r)
{
    struct job *job = open_job(r);
    struct err err = { 0 };
    if (!job)
        return;
    if (job->core.state == JOB_RUNNING && attempt_checkpoint(job)) {
        request_answer_row(r, 202, job->core.id);
        return;
    }
    err_set(&err, ERR_CONFLICT, "job %lld is %s: only a running job can write a checkpoint",
            (long long)job->core.id, job_state_name(job->core.state));
    request_fail(r, &err, NULL);
}

static void shut_down(struct request *r)
{
    request_answer(r, 202, json_object());
    daemon_stop(request_daemon(r));
}

const struct route routes[] = {
    { "GET", "/v1/version", request_version, NULL },
    { "POST", "/v1/jobs", request_submit,
      "spec:s! cwd:s! file:s set:l hold:b dry_run:b secrets:m" },
    { "GET", "/v1/jobs", request_list, NULL },
    { "GET", "/v1/jobs/JOB", request_show, NULL },
    { "POST", "/v1/jobs/JOB/cancel", cancel, "reason:s now:b" },
    { "POST", "/v1/jobs/JOB/retry", request_retry, "secrets:m" },
    { "POST", "/v1/jobs/JOB/hold", hold, NULL },
    { "POST", "/v1/jobs/JOB/release", release, NULL },
    { "POST", "/v1/jobs/JOB/checkpoint", checkpoint, NULL },
    { "GET", "/v1/jobs/JOB/why", request_why, NULL },
    { "GET", "/v1/jobs/JOB/events", request_events, NULL },
    { "GET", "/v1/jobs/JOB/logs", request_logs, NULL },
    { "GET", "/v1/jobs/JOB/metrics", request_metrics, NULL },
    { "GET", "/v1/jobs/JOB/wait", request_wait, NULL },
    { "POST", "/v1/adopt", request_adopt, "dir:s! hold:b secrets:m" },
    { "GET", "/v1/nodes", request_nodes, NULL },
    { "POST", "/v1/nodes", request_node, "name:s! action:s! reason:s" },
    { "POST", "/v1/shutdown", shut_down, NULL },
    { NULL, NULL, NULL, NULL },
};
