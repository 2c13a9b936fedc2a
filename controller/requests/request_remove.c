/* SPDX-License-Identifier: Apache-2.0 */
/* request_remove.c - POST /v1/jobs/JOB/remove: removes a done job (removal.h) */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "controller/base/daemon.h"
#include "controller/base/file_work.h"
#include "controller/http/request.h"
#include "controller/job/job_dir.h"
#include "controller/lifecycle/removal.h"
#include "controller/requests/request_job.h"
#include "controller/requests/requests.h"
#include "db/removed.h"
#include "engine/base/err.h"

/* To count the files of a large job, before its file system is taken to hang. */
enum { PATIENCE_MS = 30000 };

static void answer(struct request *r, const struct removed_row *row, bool removed)
{
    request_answer(r, 200, removal_json(row, request_daemon(r), removed));
}

/* Its sizes, counted by a thread. */
struct measure {
    struct file_task   base;
    struct removed_row row;
    char               dir[PATH_MAX];
};

static void measure_work(struct file_task *task)
{
    struct measure *m = (struct measure *)task;
    removal_measure(&m->row, m->dir);
}

static void measure_destroy(struct file_task *task)
{
    free(task);
}

static void measure_begin(struct request *r, const struct removed_row *row)
{
    char lane[48], what[PATH_MAX + 32];
    struct measure *m = calloc(1, sizeof(*m));
    if (!m) {
        request_fail(r, &(struct err){ .code = ERR_MEMORY, .text = "out of memory for a removal" }, NULL);
        return;
    }
    m->base = (struct file_task){ .work = measure_work, .destroy = measure_destroy, .patience_ms = PATIENCE_MS };
    m->row = *row;
    job_dir(m->dir, sizeof(m->dir), request_daemon(r), row->job);
    snprintf(lane, sizeof(lane), "sizes of %lld", (long long)row->job);
    snprintf(what, sizeof(what), "counting the files in %s", m->dir);
    request_work(r, &m->base, lane, what);
}

/* Called again when the files are counted, and when they are deleted: the memo then has the id. */
void request_remove(struct request *r)
{
    struct daemon *d = request_daemon(r);
    struct removed_row row;
    struct err err = { 0 };
    int64_t *memo = request_memo(r), id = memo[0];
    const json_t *body = request_body(r);
    const struct measure *m = (const struct measure *)request_worked(r);
    if (id == 0) {
        if (request_job_id(&id, d, request_job(r), &err) < 0 ||
            removal_plan(&row, d, id, json_is_true(json_object_get(body, "checkpoints")), &err) < 0)
            goto fail;
        if (!m) {
            measure_begin(r, &row);
            return;
        }
        row = m->row;
        if (json_is_true(json_object_get(body, "dry_run"))) {
            answer(r, &row, false);
            return;
        }
        if (removal_check_members(d, id, &err) < 0 || removal_begin(d, &row, &err) < 0)
            goto fail;
        memo[0] = id;
    }
    if (removal_runs(d, id) && !request_over(r)) {
        request_sleep(r, id, WAIT_MAX_S * 1000);
        return;
    }
    if (removed_get(&row, d->store, id, &err) == 0) {
        answer(r, &row, true);
        return;
    }
fail:
    request_fail(r, &err, NULL);
}
