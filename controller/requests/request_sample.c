/* SPDX-License-Identifier: Apache-2.0 */
/* request_sample.c - GET /v1/jobs/JOB/sample?step=N: the picture that a training run drew after a step
 *
 * The path is that of the newest event `sample` of this step; only a PNG is sent.
 */
#include "controller/requests/requests.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "controller/base/daemon.h"
#include "controller/base/file_work.h"
#include "controller/http/request.h"
#include "controller/job/event_kind.h"
#include "controller/requests/request_job.h"
#include "db/events.h"
#include "db/jobs.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/safe_open.h"

enum { PICTURE_MAX = 16 * 1024 * 1024 };

struct sample_task {
    struct file_task base;
    int64_t          step;
    char             path[PATH_MAX];
    char            *bytes;
    size_t           size;
    struct err       err;
};

static int find_path(void *ctx, const struct event_row *row)
{
    struct sample_task *t = ctx;
    if (event_kind_of(row->kind) != EVENT_SAMPLE)
        return 0;
    json_t *body = json_loads(row->body, 0, NULL);
    if (field_int(body, "step", -1) == t->step)
        snprintf(t->path, sizeof(t->path), "%s", field_text(body, "path"));
    json_decref(body);
    return 0;
}

static int read_picture(struct sample_task *t, int fd)
{
    static const char png[] = "\x89PNG\r\n\x1a\n";
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > PICTURE_MAX)
        return err_set(&t->err, ERR_NOT_FOUND, "%.300s is not a picture of at most 16 MiB", t->path);
    if (!(t->bytes = malloc((size_t)st.st_size + 1)))
        return err_set(&t->err, ERR_MEMORY, "out of memory for a picture");
    const ssize_t n = pread(fd, t->bytes, (size_t)st.st_size, 0);
    if (n < (ssize_t)sizeof(png) || memcmp(t->bytes, png, sizeof(png) - 1) != 0)
        return err_set(&t->err, ERR_NOT_FOUND, "%.300s is not a PNG file", t->path);
    t->size = (size_t)n;
    return 0;
}

static void sample_work(struct file_task *task)
{
    struct sample_task *t = (struct sample_task *)task;
    const int fd = safe_open(t->path, O_RDONLY, &t->err);
    if (fd < 0)
        return;
    read_picture(t, fd);
    close(fd);
}

static void sample_destroy(struct file_task *task)
{
    struct sample_task *t = (struct sample_task *)task;
    free(t->bytes);
    free(t);
}

static void sample_done(struct request *r, struct sample_task *t)
{
    if (t->err.code) {
        request_fail(r, &t->err, NULL);
        return;
    }
    request_answer_bytes(r, 200, "image/png", t->bytes, t->size);
    t->bytes = NULL;
}

static void sample_begin(struct request *r, struct sample_task *t, const struct job_row *row)
{
    char lane[48], what[PATH_MAX + 20];
    struct err err = { 0 };
    int rc = events_each(request_daemon(r)->store, row->id, 0, INT64_MAX, find_path, t, &err);
    if (rc == 0 && !t->path[0])
        rc = err_set(&err, ERR_NOT_FOUND, "job %lld drew no picture after step %lld", (long long)row->id,
                     (long long)t->step);
    if (rc < 0) {
        request_fail(r, &err, NULL);
        sample_destroy(&t->base);
        return;
    }
    snprintf(lane, sizeof(lane), "samples of %lld", (long long)row->id);
    snprintf(what, sizeof(what), "reading %s", t->path);
    request_work(r, &t->base, lane, what);
}

void request_sample(struct request *r)
{
    struct sample_task *t = (struct sample_task *)request_worked(r);
    struct job_row row;
    int64_t step;
    if (t) {
        sample_done(r, t);
        return;
    }
    if (request_number(&step, r, "step", -1) < 0 || request_job_row(&row, r) < 0)
        return;
    if (!(t = calloc(1, sizeof(*t)))) {
        request_fail(r, &(struct err){ .code = ERR_MEMORY, .text = "out of memory" }, NULL);
        return;
    }
    t->base.work = sample_work;
    t->base.destroy = sample_destroy;
    t->step = step;
    sample_begin(r, t, &row);
}
