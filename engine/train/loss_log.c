/* SPDX-License-Identifier: Apache-2.0 */
/* loss_log.c - see loss_log.h */
#include "engine/train/loss_log.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/contract/err.h"
#include "engine/contract/scratch.h"

struct loss_log {
    FILE   *file;
    int64_t every, steps;
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
    if (rc == 0 && (!out || fclose(out) != 0 || rename(tmp, path) < 0))
        rc = err_set(err, ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
    return rc;
}

int loss_log_open(struct loss_log **out, const char *path, int64_t resume_step, int64_t steps,
                  struct err *err)
{
    struct loss_log *m = calloc(1, sizeof(*m));
    if (!m)
        return err_set(err, ERR_MEMORY, "out of memory for metrics");
    m->steps = steps;
    m->every = (steps + LOSS_LOG_LINES - 1) / LOSS_LOG_LINES;
    if (cut(path, resume_step, err) < 0) {
        free(m);
        return -1;
    }
    m->file = fopen(path, "ae");
    if (!m->file) {
        free(m);
        return err_set(err, ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
    }
    *out = m;
    return 0;
}

void loss_log_close(struct loss_log *m)
{
    if (!m)
        return;
    fclose(m->file);
    free(m);
}

void loss_log_add(struct loss_log *m, int64_t step, double loss, double grad_norm, double lr,
                  double samples_per_s)
{
    if (step % m->every != 0 && step != m->steps)
        return;
    fprintf(m->file,
            "{\"step\":%lld,\"loss\":%.9g,\"grad_norm\":%.9g,\"lr\":%.9g,\"samples_per_s\":%.6g}\n",
            (long long)step, loss, grad_norm, lr, samples_per_s);
    fflush(m->file);
}

int loss_log_read(struct loss_log_point **points, int *len, const char *path, struct err *err)
{
    struct loss_log_point *all = NULL;
    char *line = NULL;
    size_t room = 0;
    int n = 0, rc = 0;
    FILE *in = fopen(path, "re");
    if (!in)
        return err_set(err, ERR_USAGE, "cannot read %s: %s", path, strerror(errno));
    while (rc == 0 && getline(&line, &room, in) >= 0) {
        json_t *o = json_loads(line, 0, NULL);
        const json_t *step = json_object_get(o, "step"), *loss = json_object_get(o, "loss");
        if (json_is_integer(step) && json_is_number(loss) && isfinite(json_number_value(loss))) {
            struct loss_log_point *more = all;
            if ((n & (n - 1)) == 0)
                more = realloc(all, sizeof(*all) * (size_t)(n ? 2 * n : 1));
            if (!more)
                rc = err_set(err, ERR_MEMORY, "out of memory to read %s", path);
            else {
                all = more;
                all[n++] = (struct loss_log_point){json_integer_value(step),
                                                   json_number_value(loss)};
            }
        }
        json_decref(o);
    }
    free(line);
    fclose(in);
    if (rc == 0 && n == 0)
        rc = err_set(err, ERR_USAGE, "%s holds no losses", path);
    if (rc < 0) {
        free(all);
        return -1;
    }
    *points = all;
    *len = n;
    return 0;
}
