/* SPDX-License-Identifier: Apache-2.0 */
/* request_remove.c - POST /v1/jobs/JOB/remove: removes a done job (removal.h) */
#include "controller/base/daemon.h"
#include "controller/daemon/removal.h"
#include "controller/daemon/request_job.h"
#include "controller/daemon/requests.h"
#include "controller/http/server.h"
#include "db/removed.h"
#include "engine/contract/err.h"

static void answer(struct request *r, const struct removed_row *row, bool removed)
{
    request_answer(r, 200, removal_json(row, request_daemon(r), removed));
}

/* Called again when the files are deleted: the memo then has the id. */
void request_remove(struct request *r)
{
    struct daemon *d = request_daemon(r);
    struct removed_row row;
    struct err err = { 0 };
    int64_t *memo = request_memo(r), id = memo[0];
    const json_t *body = request_body(r);
    if (id == 0) {
        if (request_job_id(&id, d, request_job(r), &err) < 0 ||
            removal_plan(&row, d, id, json_is_true(json_object_get(body, "checkpoints")), &err) < 0)
            goto fail;
        if (json_is_true(json_object_get(body, "dry_run"))) {
            answer(r, &row, false);
            return;
        }
        if (removal_begin(d, &row, &err) < 0)
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
