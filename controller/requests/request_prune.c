/* SPDX-License-Identifier: Apache-2.0 */
/* request_prune.c - GET /v1/prune: the done jobs that match, and what a removal of each would delete
 *
 * A page comes from the rows of SCAN jobs; the sizes of their files are counted by one task in a thread.  The document
 * is made once: with the sizes, or without them if a file system hangs.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/base/daemon.h"
#include "controller/base/file_work.h"
#include "controller/http/request.h"
#include "controller/job/job_dir.h"
#include "controller/lifecycle/removal.h"
#include "controller/requests/requests.h"
#include "db/jobs.h"
#include "db/removed.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"

/* PATIENCE_MS: to count the files of a page. */
enum { SCAN = 1000, PATIENCE_MS = 30000 };

struct page {
    struct file_task    base;
    struct daemon      *daemon;         /* not for the thread */
    bool                checkpoints;
    int64_t             next;
    char                jobs_dir[PATH_MAX];
    struct removed_row *rows;           /* of SCAN; read only while the thread works */
    int64_t           (*sizes)[2];      /* of each: all, checkpoints; the thread's until it has ended */
    size_t              count;
    json_t             *stay;           /* [{id, name, text}] */
};

static void page_work(struct file_task *task)
{
    struct page *p = (struct page *)task;
    char dir[PATH_MAX + 24];
    for (size_t i = 0; i < p->count; i++) {
        snprintf(dir, sizeof(dir), "%s/%lld", p->jobs_dir, (long long)p->rows[i].job);
        removal_count(&p->sizes[i][0], &p->sizes[i][1], dir);
    }
}

static void page_destroy(struct file_task *task)
{
    struct page *p = (struct page *)task;
    json_decref(p->stay);
    free(p->rows);
    free(p->sizes);
    free(p);
}

static int add(void *ctx, int64_t id, const char *name, const char *canonical)
{
    struct page *p = ctx;
    struct err why = { .code = ERR_NONE };
    if (removal_plan_rows(&p->rows[p->count], p->daemon, id, name, canonical, p->checkpoints, &why) == 0)
        p->count++;
    else
        json_array_append_new(p->stay, json_make("{s:I, s:s, s:s}", "id", (json_int_t)id, "name", name, "text",
                                                 why.text));
    return 0;
}

static struct page *page_make(struct daemon *d, const struct jobs_done *which, bool checkpoints, struct err *err)
{
    struct page *p = calloc(1, sizeof(*p));
    if (p)
        *p = (struct page){ .base = { .work = page_work, .destroy = page_destroy, .patience_ms = PATIENCE_MS },
                            .daemon = d, .checkpoints = checkpoints, .rows = malloc(SCAN * sizeof(*p->rows)),
                            .sizes = calloc(SCAN, sizeof(*p->sizes)), .stay = json_array() };
    if (!p || !p->rows || !p->sizes || !p->stay)
        err_set(err, ERR_MEMORY, "out of memory for a list of jobs");
    else if (jobs_done_each(d->store, which, &p->next, add, p, err) == 0)
        return p;
    if (p)
        page_destroy(&p->base);
    return NULL;
}

static json_t *answer_of(const struct page *p)
{
    json_t *jobs = json_array();
    for (size_t i = 0; i < p->count; i++)
        json_array_append_new(jobs, removal_json(&p->rows[i], p->daemon, false));
    return json_make("{s:o, s:O, s:I}", "jobs", jobs, "stay", p->stay, "next", (json_int_t)p->next);
}

/* The thread may still count. */
static json_t *without_sizes(struct file_task *task)
{
    return answer_of((const struct page *)task);
}

static json_t *with_sizes(struct file_task *task)
{
    struct page *p = (struct page *)task;
    for (size_t i = 0; i < p->count; i++)
        removal_set_sizes(&p->rows[i], p->sizes[i][0], p->sizes[i][1]);
    return answer_of(p);
}

void request_prune(struct request *r)
{
    struct daemon *d = request_daemon(r);
    struct err err = { 0 };
    struct jobs_done which = { .scan = SCAN, .result = request_query(r, "result") };
    int64_t keep, checkpoints;
    char jobs[PATH_MAX + 8], what[PATH_MAX + 32];
    if (request_worked(r)) {
        request_answer(r, 200, with_sizes(request_worked(r)));
        return;
    }
    if (request_number(&which.before, r, "before", 0) < 0 || request_number(&keep, r, "keep", 0) < 0 ||
        request_number(&which.ended_before_ms, r, "ended_before_ms", INT64_MAX) < 0 ||
        request_number(&checkpoints, r, "checkpoints", 0) < 0)
        return;
    if (which.before <= 0 && keep > 0 && jobs_done_skip(&which.before, d->store, keep, which.result, &err) < 0) {
        request_fail(r, &err, NULL);
        return;
    }
    struct page *p = page_make(d, &which, checkpoints != 0, &err);
    if (!p) {
        request_fail(r, &err, NULL);
        return;
    }
    snprintf(jobs, sizeof(jobs), "%s/jobs", d->home.path);
    snprintf(p->jobs_dir, sizeof(p->jobs_dir), "%.*s", PATH_MAX - 1, jobs);
    snprintf(what, sizeof(what), "counting the files in %s", p->jobs_dir);
    request_work_or(r, &p->base, "prune", what, without_sizes);
}
