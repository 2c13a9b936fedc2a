/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_open_encoded.c - number the samples of an encoded set; see dataset.h */
#include <stdio.h>
#include <stdlib.h>

#include "engine/contract/err.h"
#include "engine/data/dataset_internal.h"
#include "engine/data/encoded_set.h"

/* Of the keys: equal data has an equal digest, wherever it lies. */
static int digest_keys(struct dataset *d, struct err *err)
{
    const struct encoded_set *e = d->encoded;
    struct digest *sum;
    if (digest_create(&sum, err) < 0)
        return -1;
    for (int64_t i = 0; i < e->samples; i++) {
        const struct encoded_sample *s = &e->sample[i];
        digest_add(sum, s->picture.byte, sizeof(s->picture.byte));
        digest_add(sum, e->text + s->text, (size_t)s->texts * sizeof(*e->text));
    }
    digest_text(sum, d->digest);
    digest_destroy(sum);
    return 0;
}

static bool is_larger(const struct dataset_bucket *b, const struct dataset_shape *than)
{
    const int64_t area = (int64_t)b->height * b->width, most = (int64_t)than->height * than->width;
    return area > most || (area == most && abs(b->height - b->width) < abs(than->height - than->width));
}

/* The samples are sorted by shape. */
static int make_buckets(struct dataset *d, struct err *err)
{
    const struct encoded_set *e = d->encoded;
    for (int64_t i = 0; i < e->samples; i++) {
        const struct encoded_sample *s = &e->sample[i];
        struct dataset_bucket *b = d->buckets ? &d->buckets[d->shape.buckets - 1] : NULL;
        if (!b || b->height != s->height || b->width != s->width) {
            b = realloc(d->buckets, sizeof(*b) * (size_t)(d->shape.buckets + 1));
            if (!b)
                return err_set(err, ERR_MEMORY, "out of memory for buckets");
            d->buckets = b;
            b += d->shape.buckets++;
            *b = (struct dataset_bucket){.first = i, .height = s->height, .width = s->width};
        }
        b->samples++;
    }
    for (int i = 0; i < d->shape.buckets; i++)
        if (is_larger(&d->buckets[i], &d->shape)) {
            d->shape.height = d->buckets[i].height;
            d->shape.width = d->buckets[i].width;
        }
    return 0;
}

int dataset_open_encoded(struct dataset **out, struct encoded_set *set, const char *path, struct err *err)
{
    struct dataset *d = calloc(1, sizeof(*d));
    if (!d) {
        encoded_set_free(set);
        return err_set(err, ERR_MEMORY, "out of memory for a data set");
    }
    d->encoded = set;
    d->shape = (struct dataset_shape){.samples = set->samples, .channels = set->channels, .words = set->rows,
                                      .caption_channels = set->width};
    snprintf(d->path, sizeof(d->path), "%s", path);
    if (make_buckets(d, err) < 0 || digest_keys(d, err) < 0) {
        dataset_close(d);
        return -1;
    }
    *out = d;
    return 0;
}
