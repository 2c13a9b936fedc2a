/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_bucket.c - samples of one shape after the other; see dataset.h */
#include <stdlib.h>

#include "engine/base/err.h"
#include "engine/data/dataset_internal.h"

int dataset_bucket_add(struct dataset *d, int64_t samples, int64_t height, int64_t width, struct err *err)
{
    struct dataset_shape *s = &d->shape;
    struct dataset_bucket *b = s->buckets > 0 ? &d->buckets[s->buckets - 1] : NULL;
    if (!b || b->height != height || b->width != width) {
        b = realloc(d->buckets, sizeof(*b) * (size_t)(s->buckets + 1));
        if (!b)
            return err_set(err, ERR_MEMORY, "out of memory for buckets");
        d->buckets = b;
        b += s->buckets++;
        *b = (struct dataset_bucket){.first = s->samples, .height = (int)height, .width = (int)width};
        const int64_t more = height * width - (int64_t)s->height * s->width;
        if (more > 0 || (more == 0 && abs(b->height - b->width) < abs(s->height - s->width))) {
            s->height = b->height;
            s->width = b->width;
        }
    }
    b->samples += samples;
    s->samples += samples;
    return 0;
}

struct dataset_bucket dataset_bucket(const struct dataset *d, int bucket)
{
    return d->buckets[bucket];
}

struct dataset_bucket dataset_bucket_of(const struct dataset *d, int64_t sample)
{
    int b = 0;
    while (b + 1 < d->shape.buckets && d->buckets[b + 1].first <= sample)
        b++;
    return d->buckets[b];
}
