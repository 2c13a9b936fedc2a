/* SPDX-License-Identifier: Apache-2.0 */
/* batch_report.c - see batch_report.h */
#include "engine/data/batch_report.h"

#include <stdlib.h>

#include "engine/base/err.h"
#include "engine/base/json_make.h"
#include "engine/contract/train_spec.h"
#include "engine/data/batch_plan.h"

enum { WARNING = 256 };

int batch_report_make(struct batch_report *out, const struct dataset *d, const struct train_spec *s, struct err *err)
{
    struct dataset_shape shape = dataset_shape(d);
    struct batch_report r = {.batch = s->batch_global, .buckets = shape.buckets,
                             .samples = shape.samples, .steps = s->steps};
    size_t n = (size_t)shape.buckets;
    struct batch_plan *plan = NULL;
    int64_t *sizes = calloc(n, sizeof(*sizes));
    r.share = calloc(n, sizeof(*r.share));
    int rc = sizes && r.share ? 0 : err_set(err, ERR_MEMORY, "out of memory for %zu buckets", n);
    for (int b = 0; rc == 0 && b < shape.buckets; b++)
        sizes[b] = dataset_bucket(d, b).samples;
    if (rc == 0)
        rc = batch_plan_create(&plan, s->seed, r.batch, sizes, shape.buckets, err);
    for (int b = 0; rc == 0 && b < shape.buckets; b++)
        r.share[b] = (struct batch_share){
            .bucket = dataset_bucket(d, b),
            .batches = batch_plan_batches(plan, b, s->steps),
            .leftover = sizes[b] % r.batch,
            .repeats = (r.batch + sizes[b] - 1) / sizes[b],
        };
    if (rc == 0) {
        r.per_epoch = batch_plan_begin(plan, 1);
        r.leftover = r.samples - r.per_epoch * r.batch;
        *out = r;
    } else {
        free(r.share);
    }
    batch_plan_destroy(plan);
    free(sizes);
    return rc;
}

void batch_report_free(struct batch_report *r)
{
    free(r->share);
    *r = (struct batch_report){0};
}

/* Whether there is a warning. */
static bool warn(char text[WARNING], const struct batch_report *r, const struct batch_share *s)
{
    const struct dataset_bucket *b = &s->bucket;
    if (s->repeats == 1)
        return false;
    int n = snprintf(text, WARNING, "bucket %dx%d has %lld sample%s for a batch of %d: a batch "
                     "takes up to %lld epochs to fill and then holds each sample up to %lld times",
                     b->height, b->width, (long long)b->samples, b->samples == 1 ? "" : "s",
                     r->batch, (long long)s->repeats, (long long)s->repeats);
    if (s->batches == 0 && n > 0 && n < WARNING)
        snprintf(text + n, WARNING - (size_t)n, "; this run ends before it completes one");
    return true;
}

void batch_report_print(const struct batch_report *r, FILE *to)
{
    char text[WARNING];
    if (r->leftover > 0)
        fprintf(to, "leftovers   %lld samples do not fill %s of an epoch: they are carried into "
                    "the next one\n", (long long)r->leftover,
                r->buckets == 1 ? "the last batch" : "the last batches of their buckets");
    if (r->buckets > 1)
        fprintf(to, "buckets     %d, each batch is from one:   size   samples  batches of the run"
                    "  carried\n", r->buckets);
    for (int i = 0; i < r->buckets && r->buckets > 1; i++) {
        const struct batch_share *s = &r->share[i];
        char size[32];
        snprintf(size, sizeof(size), "%dx%d", s->bucket.height, s->bucket.width);
        fprintf(to, "%46s %9lld %19lld %8lld\n", size, (long long)s->bucket.samples,
                (long long)s->batches, (long long)s->leftover);
    }
    for (int i = 0; i < r->buckets; i++)
        if (warn(text, r, &r->share[i]))
            fprintf(to, "warning     %s\n", text);
}

json_t *batch_report_json(const struct batch_report *r)
{
    json_t *buckets = json_array(), *warnings = json_array();
    char text[WARNING];
    for (int i = 0; i < r->buckets; i++) {
        const struct batch_share *s = &r->share[i];
        json_array_append_new(buckets,
                              json_make("{s:i, s:i, s:I, s:I, s:I, s:I}", "height",
                                        s->bucket.height, "width", s->bucket.width, "samples",
                                        (json_int_t)s->bucket.samples, "batches",
                                        (json_int_t)s->batches, "leftover_per_epoch",
                                        (json_int_t)s->leftover, "repeats",
                                        (json_int_t)s->repeats));
        if (warn(text, r, s))
            json_array_append_new(warnings, json_text(text));
    }
    return json_make("{s:I, s:I, s:I, s:o, s:o}", "samples", (json_int_t)r->samples,
                     "batches_per_epoch", (json_int_t)r->per_epoch, "leftover_per_epoch",
                     (json_int_t)r->leftover, "buckets", buckets, "warnings", warnings);
}
