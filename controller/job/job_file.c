/* SPDX-License-Identifier: Apache-2.0 */
/* job_file.c - see job_file.h */
#include "controller/job/job_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "controller/base/daemon.h"
#include "controller/job/job.h"
#include "controller/job/job_core_json.h"
#include "controller/job/job_dir.h"
#include "db/events.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_file.h"
#include "engine/base/json_make.h"
#include "engine/base/json_seal.h"
#include "engine/base/safe_open.h"

#define NEW JOB_FILE ".new"

enum { FORMAT = 1 };

bool job_file_matters(enum event_kind kind)
{
    switch (kind) {
    case EVENT_SUBMITTED:
    case EVENT_HELD:
    case EVENT_RELEASED:
    case EVENT_EDITED:
    case EVENT_RETRY:
    case EVENT_GENERATION_STARTED:
    case EVENT_CHECKPOINT:
    case EVENT_REBUILT:
        return true;
    default:
        return job_file_durable(kind);
    }
}

bool job_file_durable(enum event_kind kind)
{
    return kind == EVENT_PLACED || kind == EVENT_STOP_REQUESTED || kind == EVENT_DONE;
}

/* ---- writing ---- */

static int take_body(void *ctx, const struct event_row *row)
{
    *(json_t **)ctx = json_loads(row->body, 0, NULL);
    return 0;
}

static json_t *number_or_null(double number)
{
    json_t *value = json_real(number);      /* NULL where it is not finite */
    return value ? value : json_null();
}

static json_t *run_make(const struct attempt_row *a)
{
    if (!a)
        return json_null();
    return json_make("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "nonce", a->nonce, "node", a->node, "boot_id",
                     a->boot_id, "pid", (json_int_t)a->pid, "start_time", (json_int_t)a->start_time, "incarnation",
                     (json_int_t)a->incarnation, "acked", (json_int_t)a->acked, "started_ms",
                     (json_int_t)a->started_ms, "ended_ms", (json_int_t)a->ended_ms);
}

static json_t *content_make(const struct job *job, struct err *err)
{
    struct store *s = job->daemon->store;
    char *yaml = NULL, *canonical = NULL;
    json_t *submitted = NULL, *out = NULL;
    if (jobs_spec(&yaml, &canonical, s, job->core.id, err) == 0 &&
        events_each(s, job->core.id, 0, 1, take_body, &submitted, err) == 0)
        out = json_make("{s:i, s:I, s:s?, s:I, s:O?, s:o, s:o, s:O?, s:O?, s:I, s:s?, s:o, s:o, s:s, s:s}",
                        "format", FORMAT, "id", (json_int_t)job->core.id, "origin", job->spec.origin, "seq",
                        (json_int_t)job->stored.last_seq, "submitted", submitted, "state",
                        job_core_json_make(&job->core),
                        "run", run_make(job->attempt), "placed", job->nodes.placed, "lost", job->nodes.lost, "lease_ms",
                        (json_int_t)job->times.lease_ms, "checkpoint", job->checkpoint_path, "loss",
                        number_or_null(job->live_stats.loss), "samples_per_s",
                        number_or_null(job->live_stats.samples_per_s), "yaml", yaml, "canonical",
                        canonical);
    if (!out && err && err->code == ERR_NONE)
        err_set(err, ERR_MEMORY, "out of memory for " JOB_FILE " of job %lld", (long long)job->core.id);
    json_decref(submitted);
    free(yaml);
    free(canonical);
    return out;
}

/* The data are synced after the renaming: one sync serves both. A name without its data is a damaged file, and is
 * written again from the store. */
static int put(int dir, json_t *content, bool durable)
{
    const int fd = safe_open_in(dir, NEW, O_WRONLY | O_CREAT | O_TRUNC, NULL);
    const bool whole = fd >= 0 && json_seal(content) == 0 && json_file_put(content, fd, JSON_COMPACT) == 0 &&
                       renameat(dir, NEW, dir, JOB_FILE) == 0 && (!durable || fsync(fd) == 0);
    const int why = errno;
    if (fd >= 0)
        close(fd);
    errno = why;
    return whole ? 0 : -1;
}

int job_file_write(const struct job *job, bool durable, struct err *err)
{
    char path[PATH_MAX];
    if (job->strange)
        return 0;
    job_dir(path, sizeof(path), job->daemon, job->core.id);
    if (job->core.attempt <= 1 && !job->core.agent_known && job_dir_make(path, err) < 0)
        return -1;
    const int dir = job_dir_open(job->daemon->home.path, job->core.id, err);
    json_t *content = dir >= 0 ? content_make(job, err) : NULL;
    int rc = content ? 0 : -1;
    if (rc == 0 && put(dir, content, durable) < 0)
        rc = err_set_errno(err, errno, "cannot write %.4000s/" JOB_FILE, path);
    json_decref(content);
    if (dir >= 0)
        close(dir);
    return rc;
}

/* ---- reading ---- */

json_t *job_file_read(const char *home, int64_t id, struct err *err)
{
    const int fd = job_dir_open_file(home, id, JOB_FILE, O_RDONLY, NULL), why = errno;
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    if (!f) {
        err_set_errno(err, why, "cannot open %.3900s/jobs/%lld/" JOB_FILE, home, (long long)id);
        return NULL;
    }
    json_t *job = json_loadf(f, 0, NULL);
    fclose(f);
    if (field_int(job, "format", 0) == FORMAT && field_int(job, "id", 0) == id && field_text(job, "sum")[0] &&
        !json_seal_broken(job))
        return job;
    json_decref(job);
    err_set(err, ERR_DATA, "%.3900s/jobs/%lld/" JOB_FILE " is damaged", home, (long long)id);
    return NULL;
}

bool job_file_of_another(const char *home, int64_t id, const json_t *spec, const char *origin)
{
    const char *theirs = field_text(json_object_get(spec, "checkpoint"), "origin");
    if (!theirs[0] || !origin[0] || strcmp(theirs, origin) == 0)
        return false;
    json_t *job = job_file_read(home, id, NULL); /* a bit of spec.json may have flipped */
    const bool another = strcmp(field_text(job, "origin"), origin) != 0;
    json_decref(job);
    return another;
}

bool job_file_is_job(const char *home, int64_t id)
{
    static const char *const names[] = { JOB_FILE, "spec.json" };
    for (int i = 0; i < 2; i++) {
        const int fd = job_dir_open_file(home, id, names[i], O_RDONLY, NULL);
        if (fd < 0 && errno == ENOENT)
            continue;
        if (fd >= 0)
            close(fd);
        return true;
    }
    return false;
}
