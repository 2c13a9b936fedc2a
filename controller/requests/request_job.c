/* SPDX-License-Identifier: Apache-2.0 */
/* request_job.c - see request_job.h */
#include "controller/requests/request_job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "controller/base/daemon.h"
#include "controller/http/request.h"
#include "controller/job/active_jobs.h"
#include "controller/lifecycle/submit_batch.h"
#include "controller/requests/job_json.h"
#include "db/jobs.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"

/* "12_3": a member of a sweep by its index. */
static int member_id(int64_t *id, struct daemon *d, long long sweep, const char *word, struct err *err)
{
    struct job_row row;
    const long long index = strtoll(word, NULL, 10);
    if (jobs_get(&row, d->store, sweep, err) < 0)
        return -1;
    if (row.members <= 0)
        return err_set(err, ERR_NOT_FOUND, "job %lld is not a sweep or an array, so it has no member %.20s", sweep,
                       word);
    const int rc = jobs_members_find(id, d->store, sweep, index, err);
    return rc != 0 ? (rc > 0 ? 0 : -1)
                   : err_set(err, ERR_NOT_FOUND, "member %.20s of job %lld has not started, or does not exist",
                             word, sweep);
}

int request_job_id_before(int64_t *id, struct daemon *d, const char *word, int64_t before, struct err *err)
{
    char *end;
    errno = 0;
    long long number = strtoll(word, &end, 10);
    if (end != word && !*end) {
        if (errno || number <= 0)
            return err_set(err, ERR_NOT_FOUND, "job %.40s does not exist", word);
        *id = number;
        return 0;
    }
    const bool member = end != word && *end == '_' && end[1] && !end[1 + strspn(end + 1, "0123456789")];
    if (member && jobs_find(id, d->store, word, before, NULL) < 0)      /* a job may have such a name */
        return member_id(id, d, number, end + 1, err);
    return jobs_find(id, d->store, strcmp(word, "last") == 0 ? NULL : word, before, err);
}

int request_job_id(int64_t *id, struct daemon *d, const char *word, struct err *err)
{
    return request_job_id_before(id, d, word, INT64_MAX, err);
}

int request_job_row(struct job_row *row, struct request *r)
{
    struct daemon *d = request_daemon(r);
    struct err err = { 0 };
    int64_t id;
    if (request_job_id(&id, d, request_job(r), &err) == 0 && job_json_row(row, d, id, &err) == 0)
        return 0;
    request_fail(r, &err, NULL);
    return -1;
}

struct job *request_job_open(struct request *r)
{
    struct daemon *d = request_daemon(r);
    struct err err = { 0 };
    struct job_row row;
    int64_t id;
    if (request_job_id(&id, d, request_job(r), &err) < 0)
        goto fail;
    struct job *job = active_jobs_find(d->active_jobs, id);
    if (job)
        return job;
    if (job_json_row(&row, d, id, &err) == 0)
        err_set(&err, ERR_CONFLICT, "job %lld is done (%s)", (long long)id, row.result);
fail:
    request_fail(r, &err, NULL);
    return NULL;
}

void request_job_answer(struct request *r, int status, int64_t id)
{
    struct err err = { 0 };
    json_t *row = job_json_of_id(request_daemon(r), id, &err);
    if (row)
        request_answer(r, status, json_make("{s:o}", "job", row));
    else
        request_fail(r, &err, NULL);
}

void request_job_submitted(struct request *r, int64_t id, int64_t batch)
{
    const struct submit_batch *in = request_daemon(r)->submit_batch;
    if (batch == in->failed)
        request_fail(r, &in->err, NULL);
    else
        request_job_answer(r, 201, id);
}
