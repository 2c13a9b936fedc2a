/* SPDX-License-Identifier: Apache-2.0 */
/* curve_table.c - see curve_table.h */
#include "controller/watch/curve_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/base/client.h"
#include "controller/cli/command.h"
#include "controller/cli/output.h"
#include "engine/base/json_make.h"

enum { CURVES = 10, POINTS_MAX = 2000 };

/* The last five are phases of a step, which `train:` jobs have. */
static const char *const curves[CURVES] = {"loss", "grad_norm", "lr", "samples_per_s", "step_ms", "data_ms",
                                           "forward_ms", "backward_ms", "reduce_ms", "optimizer_ms"};

struct point {
    long long step;
    int       curve;
    double    value;
};

struct table {
    struct point *points;   /* by step */
    size_t        count;
};

static int compare(const void *pa, const void *pb)
{
    const struct point *a = pa, *b = pb;
    return a->step != b->step ? (a->step < b->step ? -1 : 1) : a->curve - b->curve;
}

/* Appends the points of one curve. */
static int take(struct table *t, int curve, const json_t *list, struct err *err)
{
    const size_t more = json_array_size(list);
    struct point *points = realloc(t->points, (t->count + more + 1) * sizeof(*points));
    if (!points)
        return err_set(err, ERR_MEMORY, "out of memory for the curves of a job");
    t->points = points;
    for (size_t i = 0; i < more; i++) {
        const json_t *p = json_array_get(list, i);
        points[t->count++] = (struct point){json_integer_value(json_array_get(p, 0)), curve,
                                            json_number_value(json_array_get(p, 1))};
    }
    return 0;
}

static int read_curves(struct table *t, struct client *c, const char *part, struct err *err)
{
    char names[160] = "";
    json_t *answer = NULL;
    for (int i = 0; i < CURVES; i++)
        snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", i ? "," : "", curves[i]);
    if (client_get(c, &answer, err, "/v1/jobs/%s/metrics?names=%s&limit=%d", part, names, POINTS_MAX) < 0)
        return -1;
    int rc = 0;
    for (int i = 0; i < CURVES && rc == 0; i++)
        rc = take(t, i, json_object_get(json_object_get(answer, "curves"), curves[i]), err);
    json_decref(answer);
    if (t->count)
        qsort(t->points, t->count, sizeof(*t->points), compare);
    return rc;
}

/* The values of the row that begins at point i, NaN where there is none; returns the first point of the next row. */
static size_t row_at(double values[CURVES], const struct table *t, size_t i)
{
    const long long step = t->points[i].step;
    for (int c = 0; c < CURVES; c++)
        values[c] = NAN;
    for (; i < t->count && t->points[i].step == step; i++)
        values[t->points[i].curve] = t->points[i].value;
    return i;
}

static void print_csv(FILE *out, const struct table *t)
{
    double values[CURVES];
    fputs("step", out);
    for (int c = 0; c < CURVES; c++)
        fprintf(out, ",%s", curves[c]);
    fputc('\n', out);
    for (size_t i = 0; i < t->count;) {
        fprintf(out, "%lld", t->points[i].step);
        i = row_at(values, t, i);
        for (int c = 0; c < CURVES; c++)
            if (isfinite(values[c]))
                fprintf(out, ",%.9g", values[c]);
            else
                fputc(',', out);
        fputc('\n', out);
    }
}

static json_t *row_json(const struct table *t, size_t *i)
{
    double values[CURVES];
    json_t *row = json_make("{s:I}", "step", (json_int_t)t->points[*i].step);
    *i = row_at(values, t, *i);
    for (int c = 0; c < CURVES; c++)
        if (isfinite(values[c]))
            json_object_set_new(row, curves[c], json_real(values[c]));
    return row;
}

static void print_json(struct call *call, const struct table *t)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < t->count;)
        json_array_append_new(rows, row_json(t, &i));
    output_json(call, json_make("{s:o}", "rows", rows));
}

static int print(struct call *call, const char *job, const struct table *t)
{
    if (t->count == 0)
        return err_set(&call->err, ERR_CONFLICT, "job %.80s has no curves: no step was reported yet, or they "
                       "were lost with the store", job);
    if (call->json)
        print_json(call, t);
    else
        print_csv(call->out.file, t);
    return 0;
}

int curve_table_print(struct call *call)
{
    const char *job = call->options.args[0];
    struct table t = {.count = 0};
    struct client *c;
    if (client_open(&c, true, &call->err) < 0)
        return -1;
    char *part = client_job_part(job, &call->err);
    int rc = part ? read_curves(&t, c, part, &call->err) : -1;
    if (rc == 0)
        rc = print(call, job, &t);
    free(part);
    free(t.points);
    client_close(c);
    return rc;
}
