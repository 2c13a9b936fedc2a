/* SPDX-License-Identifier: Apache-2.0 */
/* loss_log.c - see loss_log.h */
#include "engine/train/loss_log.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/scratch.h"

struct loss_log {
    char    path[SCRATCH_PATH];
    int     fd;                  /* -1: not opened yet */
    int64_t resume, every, steps;
};

static int64_t step_of(const char *line)
{
    json_t *o = json_loads(line, 0, NULL);
    const json_t *step = json_object_get(o, "step");
    int64_t k = json_is_integer(step) ? json_integer_value(step) : -1;
    json_decref(o);
    return k;
}

/* Copies the lines up to step `last`; a missing file is empty. */
static int cut(const char *path, int64_t last, struct err *err)
{
    char tmp[SCRATCH_PATH];
    char *line = NULL;
    size_t room = 0;
    FILE *in = fopen(path, "re");
    if (!in)
        return 0;
    int rc = scratch_name(tmp, path, err);
    FILE *out = rc == 0 ? fopen(tmp, "we") : NULL;
    while (out && getline(&line, &room, in) >= 0) {
        int64_t k = step_of(line);
        if (k >= 0 && k <= last)
            fputs(line, out);
    }
    free(line);
    fclose(in);
    if (rc == 0 && (!out || fclose(out) != 0 || rename(tmp, path) < 0)) {
        rc = err_set_errno(err, errno, "cannot write %s", path);
        unlink(tmp);
    }
    return rc;
}

static int open_file(struct loss_log *m, struct err *err)
{
    if (m->fd >= 0)
        return 0;
    if (cut(m->path, m->resume, err) < 0)
        return -1;
    m->fd = open(m->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    return m->fd >= 0 ? 0 : err_set_errno(err, errno, "cannot write %s", m->path);
}

struct loss_log *loss_log_open(const char *path, int64_t resume_step, int64_t steps, struct err *err)
{
    struct loss_log *m = calloc(1, sizeof(*m));
    if (!m) {
        err_set(err, ERR_MEMORY, "out of memory for metrics");
        return NULL;
    }
    *m = (struct loss_log){.fd = -1, .resume = resume_step, .steps = steps,
                           .every = (steps + LOSS_LOG_LINES - 1) / LOSS_LOG_LINES};
    snprintf(m->path, sizeof(m->path), "%s", path);
    open_file(m, err);
    return m;
}

void loss_log_close(struct loss_log *m)
{
    if (!m)
        return;
    if (m->fd >= 0)
        close(m->fd);
    free(m);
}

/* A whole line or none. */
static int append(const struct loss_log *m, const char *line, size_t bytes, struct err *err)
{
    struct stat st;
    const bool known = fstat(m->fd, &st) == 0;
    const ssize_t wrote = write(m->fd, line, bytes);
    if (wrote == (ssize_t)bytes)
        return 0;
    err_set_errno(err, wrote < 0 ? errno : ENOSPC, "cannot write %s", m->path);
    if (wrote > 0 && known)
        (void)!ftruncate(m->fd, st.st_size); /* a reader skips half a line */
    return -1;
}

int loss_log_add(struct loss_log *m, int64_t step, double loss, double grad_norm, double lr,
                 double samples_per_s, struct err *err)
{
    char line[200];
    if (!m || (step % m->every != 0 && step != m->steps))
        return 0;
    const int n = snprintf(line, sizeof(line), "{\"step\":%lld,\"loss\":%.9g,\"grad_norm\":%.9g,\"lr\":%.9g,"
                           "\"samples_per_s\":%.6g}\n",
                           (long long)step, loss, grad_norm, lr, samples_per_s);
    return open_file(m, err) < 0 ? -1 : append(m, line, (size_t)n, err);
}
