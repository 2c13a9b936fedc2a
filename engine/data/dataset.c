/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.c - access to samples by number, and decoding to pictures; see dataset.h */
#include "engine/data/dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/json_make.h"
#include "engine/collection/caption.h"
#include "engine/data/dataset_internal.h"
#include "engine/data/encoded_set.h"
#include "engine/data/synthetic.h"
#include "engine/image/dct.h"
#include "engine/image/image.h"

void dataset_close(struct dataset *d)
{
    if (!d)
        return;
    for (int i = 0; i < d->nsources; i++) {
        st_close(d->sources[i].file);
        free(d->sources[i].name);
    }
    dataset_arrays_close(d->arrays);
    dataset_pictures_close(d);
    synthetic_destroy(d->synthetic);
    encoded_set_free(d->encoded);
    free(d->sources);
    free(d->shards);
    free(d->buckets);
    free(d->mean);
    free(d->deviation);
    free(d);
}

static json_t *list_of(const float *x, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_real((double)x[i]));
    return list;
}

json_t *dataset_codec(const struct dataset *d)
{
    const struct dataset_shape *s = &d->shape;
    if (d->block == 0)
        return NULL;
    return json_make("{s:i, s:i, s:i, s:i, s:i, s:o, s:o}", "dct_block", d->block, "height",
                     s->height, "width", s->width, "caption_words", s->words, "caption_channels",
                     s->caption_channels, "mean", list_of(d->mean, s->channels), "deviation",
                     list_of(d->deviation, s->channels));
}

static int int_of(const json_t *o, const char *key)
{
    json_int_t x = json_integer_value(json_object_get(o, key));
    return x >= 1 && x <= 65536 ? (int)x : 0;
}

static float *floats_of(const json_t *list, int n)
{
    float *x = n > 0 && json_array_size(list) == (size_t)n ? calloc((size_t)n, sizeof(*x)) : NULL;
    for (int i = 0; x && i < n; i++)
        x[i] = (float)json_number_value(json_array_get(list, (size_t)i));
    return x;
}

int dataset_from_codec(struct dataset **out, const json_t *codec, struct err *err)
{
    struct dataset *d = calloc(1, sizeof(*d));
    if (!d)
        return err_set(err, ERR_MEMORY, "out of memory for a data set");
    int b = int_of(codec, "dct_block");
    d->block = b <= 32 ? b : 0;
    d->shape = (struct dataset_shape){.channels = 3 * d->block * d->block,
                                      .height = int_of(codec, "height"),
                                      .width = int_of(codec, "width"),
                                      .words = int_of(codec, "caption_words"),
                                      .caption_channels = int_of(codec, "caption_channels")};
    d->mean = floats_of(json_object_get(codec, "mean"), d->shape.channels);
    d->deviation = floats_of(json_object_get(codec, "deviation"), d->shape.channels);
    d->shape.buckets = 1;
    d->buckets = calloc(1, sizeof(*d->buckets));
    if (d->buckets)
        *d->buckets = (struct dataset_bucket){.height = d->shape.height, .width = d->shape.width};
    if (!d->block || !d->shape.height || !d->shape.width || !d->shape.words ||
        !d->shape.caption_channels || !d->mean || !d->deviation || !d->buckets) {
        dataset_close(d);
        return err_set(err, ERR_DATA, "the codec of this checkpoint is not readable");
    }
    *out = d;
    return 0;
}

struct dataset_shape dataset_shape(const struct dataset *d)
{
    return d->shape;
}

const char *dataset_digest(const struct dataset *d)
{
    return d->digest;
}

static const struct shard *shard_of(const struct dataset *d, int64_t i)
{
    int lo = 0, hi = d->nshards - 1;
    while (lo < hi) {
        int mid = (lo + hi + 1) / 2;
        if (d->shards[mid].first <= i)
            lo = mid;
        else
            hi = mid - 1;
    }
    return &d->shards[lo];
}

const char *dataset_name(struct dataset *d, int64_t i)
{
    if (d->pictures)
        return dataset_pictures_name(d, i);
    if (d->encoded)
        return dataset_encoded_name(d, i);
    if (d->arrays)
        return dataset_arrays_name(d, i);
    if (d->synthetic) {
        snprintf(d->label, sizeof(d->label), "synthetic#%lld", (long long)i);
        return d->label;
    }
    const struct shard *s = shard_of(d, i);
    long long row = i - s->first;
    if (s->group == 0)
        snprintf(d->label, sizeof(d->label), "%.255s#%lld", shard_name(d, s), row);
    else
        snprintf(d->label, sizeof(d->label), "%.255s#%d.%lld", shard_name(d, s), s->group, row);
    return d->label;
}

const char *dataset_caption(const struct dataset *d, int64_t i)
{
    return d->pictures ? dataset_pictures_caption(d, i) : "";
}

/* Sample i of a tensor whose first dimension is the sample. */
static int copy_row(float *to, const struct st_tensor *all, int64_t i, struct err *err)
{
    if (!to)
        return 0;
    struct st_tensor row = *all;
    row.count = all->count / (size_t)all->dim[0];
    row.bytes = all->bytes / (size_t)all->dim[0];
    row.data = (const char *)all->data + (size_t)i * row.bytes;
    return st_to_float(to, &row, row.count, err);
}

int dataset_get(const struct dataset *d, int64_t i, float *latent, float *caption, float *mask, struct err *err)
{
    return dataset_take(d, i, NULL, latent, caption, mask, err);
}

bool dataset_drops_length(const struct dataset *d)
{
    return d->encoded && d->encoded->short_null;
}

int dataset_take(const struct dataset *d, int64_t i, const struct dataset_turn *turn, float *latent, float *caption,
                 float *mask, struct err *err)
{
    if (i < 0 || i >= d->shape.samples)
        return err_set(err, ERR_BUG, "sample %lld does not exist; there are %lld", (long long)i,
                       (long long)d->shape.samples);
    if (d->encoded)
        return dataset_encoded_get(d, i, turn, latent, caption, mask, err);
    if (d->pictures) {
        dataset_pictures_get(d, i, latent, caption, mask);
        return 0;
    }
    if (d->arrays)
        return dataset_arrays_get(d, i, latent, caption, mask, err);
    if (d->synthetic) {
        const struct dataset_shape *z = &d->shape;
        synthetic_get(d->synthetic, i, latent, (size_t)z->channels * (size_t)z->height * (size_t)z->width, caption,
                      (size_t)z->words * (size_t)z->caption_channels);
        for (int k = 0; mask && k < z->words; k++)
            mask[k] = 1;
        return 0;
    }
    const struct shard *s = shard_of(d, i);
    if (copy_row(latent, s->latent, i - s->first, err) < 0 ||
        copy_row(caption, s->caption, i - s->first, err) < 0 ||
        copy_row(mask, s->mask, i - s->first, err) < 0)
        return err_prefix(err, "shard %s: ", shard_name(d, s));
    return 0;
}

int dataset_null(const struct dataset *d, float *tokens, struct err *err)
{
    const struct st_tensor *t = d->nsources > 0 ? st_find(d->sources[0].file, "null") : NULL;
    size_t n = (size_t)d->shape.words * (size_t)d->shape.caption_channels;
    if (t && t->count != n)
        return err_set(err, ERR_DATA, "shard %s: 'null' has %zu numbers, not %zu", d->sources[0].name, t->count, n);
    if (t)
        return st_to_float(tokens, t, n, err);
    if (d->encoded)
        return dataset_encoded_null(d, tokens, err);
    if (d->block > 0) {
        caption_null(tokens, d->shape.words, d->shape.caption_channels);
        return 0;
    }
    memset(tokens, 0, sizeof(*tokens) * n);
    return 0;
}

int dataset_text(const struct dataset *d, const char *text, float *caption, float *mask, struct err *err)
{
    if (d->encoded)
        return dataset_encoded_text(d, text, caption, mask, err);
    if (d->block == 0)
        return err_set(err, ERR_USAGE, "precomputed features have no encoder for other texts");
    caption_encode(caption, mask, text, d->shape.words, d->shape.caption_channels);
    return 0;
}

int dataset_picture(const struct dataset *d, struct image *out, const float *latent, int height,
                    int width, struct err *err)
{
    if (d->block == 0)
        return err_set(err, ERR_USAGE, "precomputed features cannot be decoded to pictures");
    size_t hw = (size_t)height * (size_t)width;
    float *raw = malloc(sizeof(*raw) * (size_t)d->shape.channels * hw);
    if (!raw)
        return err_set(err, ERR_MEMORY, "out of memory to decode a picture");
    for (size_t c = 0; c < (size_t)d->shape.channels; c++)
        for (size_t k = 0; k < hw; k++)
            raw[c * hw + k] = latent[c * hw + k] * d->deviation[c] + d->mean[c];
    int rc = dct_decode(out, raw, d->block, height, width, err);
    free(raw);
    return rc;
}
