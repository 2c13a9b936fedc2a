/* SPDX-License-Identifier: Apache-2.0 */
/* pack_build.c - encode pictures to latents by shape, and captions to tokens; see pack.h */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/contract/err.h"
#include "engine/contract/train_spec.h"
#include "engine/data/caption.h"
#include "engine/data/collection.h"
#include "engine/data/dct.h"
#include "engine/data/image.h"
#include "engine/data/pack_internal.h"

/* A picture to be packed. */
struct picture {
    int64_t index; /* in the collection */
    int     height, width; /* of its latent */
    float  *latent;
    char   *name, *caption;
};

static void free_pictures(struct picture *all, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        free(all[i].latent);
        free(all[i].name);
        free(all[i].caption);
    }
    free(all);
}

static int describe(struct picture *p, const struct collection *c, struct err *err)
{
    struct collection_sample s;
    if (collection_sample(&s, c, p->index, err) < 0)
        return -1;
    p->name = strdup(s.name);
    p->caption = strdup(s.caption[collection_best(&s)].text);
    collection_sample_free(&s);
    return p->name && p->caption ? 0 : err_set(err, ERR_MEMORY, "out of memory for a picture");
}

static int encode(struct picture *p, const struct collection *c, const struct train_spec *s, struct err *err)
{
    struct image im = {0};
    int b = s->dct_block, edge = b * s->model.patch, rc = -1;
    if (describe(p, c, err) < 0 || collection_picture(&im, c, p->index, err) < 0)
        goto out;
    if (im.width % edge || im.height % edge) {
        err_set(err, ERR_DATA, "%s/%s is %d x %d pixels, not a multiple of %d; set train.data.resolution", s->data_path,
                p->name, im.width, im.height, edge);
        goto out;
    }
    p->height = im.height / b;
    p->width = im.width / b;
    p->latent = malloc(sizeof(float) * 3 * (size_t)im.height * (size_t)im.width);
    if (p->latent)
        rc = dct_encode(p->latent, &im, b, err);
    else
        err_set(err, ERR_MEMORY, "out of memory for %s/%s", s->data_path, p->name);
out:
    image_free(&im);
    return rc;
}

static int compare_sizes(const struct picture *p, const struct picture *first,
                         const struct train_spec *s, struct err *err)
{
    int b = s->dct_block;
    if (s->multi_scale || (p->height == first->height && p->width == first->width))
        return 0;
    return err_set(err, ERR_DATA, "%s/%s is %d x %d pixels, but %s is %d x %d; set train.data.resolution", s->data_path,
                   p->name, p->width * b, p->height * b, first->name, first->width * b, first->height * b);
}

static int encode_all(struct picture *all, const struct collection *c, const struct train_spec *s,
                      pack_tick_fn tick, void *arg, struct err *err)
{
    const int64_t n = collection_len(c);
    for (int64_t i = 0; i < n; i++) {
        all[i].index = i;
        if (encode(&all[i], c, s, err) < 0 || compare_sizes(&all[i], &all[0], s, err) < 0)
            return -1;
        if (tick && !tick(arg, i + 1, n))
            return err_set(err, ERR_CONFLICT, "stopped on request with %lld of %lld pictures packed; "
                                              "the next start begins again", (long long)i + 1, (long long)n);
    }
    return 0;
}

/* The order of buckets: by H / W, then by H; then as in the folder. */
static int by_shape(const void *a, const void *b)
{
    const struct picture *x = a, *y = b;
    int64_t order = (int64_t)x->height * y->width - (int64_t)y->height * x->width;
    if (order == 0)
        order = x->height - y->height;
    if (order == 0)
        order = x->index - y->index;
    return (order > 0) - (order < 0);
}

static bool same_shape(const struct picture *a, const struct picture *b)
{
    return a->height == b->height && a->width == b->width;
}

static int alloc(struct pack *p, const struct picture *all, struct err *err)
{
    size_t floats = 0, row = (size_t)(p->words * p->caption_channels);
    for (int64_t i = 0; i < p->n; i++) {
        floats += (size_t)p->channels * (size_t)all[i].height * (size_t)all[i].width;
        p->groups += i == 0 || !same_shape(&all[i], &all[i - 1]);
    }
    p->group = calloc((size_t)p->groups, sizeof(*p->group));
    p->latent = calloc(floats, sizeof(float));
    p->caption = calloc((size_t)p->n, sizeof(float) * row);
    p->null = calloc(row, sizeof(float));
    p->mask = calloc((size_t)p->n, sizeof(float) * (size_t)p->words);
    p->mean = calloc((size_t)p->channels, sizeof(float));
    p->deviation = calloc((size_t)p->channels, sizeof(float));
    if (p->group && p->latent && p->caption && p->null && p->mask && p->mean && p->deviation)
        return 0;
    return err_set(err, ERR_MEMORY, "out of memory for %lld pictures", (long long)p->n);
}

/* Latents in the order of `all`, split into groups. */
static void gather(struct pack *p, struct picture *all)
{
    struct pack_group *g = p->group - 1;
    float *to = p->latent;
    for (int64_t i = 0; i < p->n; i++) {
        size_t count = (size_t)p->channels * (size_t)all[i].height * (size_t)all[i].width;
        if (i == 0 || !same_shape(&all[i], &all[i - 1]))
            *++g = (struct pack_group){.height = all[i].height, .width = all[i].width,
                                       .latent = to,
                                       .caption = p->caption + i * p->words * p->caption_channels,
                                       .mask = p->mask + i * p->words};
        memcpy(to, all[i].latent, sizeof(float) * count);
        free(all[i].latent);
        all[i].latent = NULL;
        to += count;
        g->n++;
    }
}

/* Mean and deviation of a channel over all pictures. */
static void measure(struct pack *p, int64_t c)
{
    double sum = 0, square = 0;
    int64_t count = 0;
    for (int k = 0; k < p->groups; k++) {
        const struct pack_group *g = &p->group[k];
        int64_t hw = g->height * g->width;
        count += g->n * hw;
        for (int64_t i = 0; i < g->n; i++)
            for (int64_t j = 0; j < hw; j++) {
                double x = g->latent[(i * p->channels + c) * hw + j];
                sum += x;
                square += x * x;
            }
    }
    double mean = sum / (double)count;
    double var = square / (double)count - mean * mean;
    p->mean[c] = (float)mean;
    p->deviation[c] = (float)sqrt(var > 0 ? var : 0);
}

static void standardise(struct pack *p)
{
    float largest = 0;
    for (int64_t c = 0; c < p->channels; c++) {
        measure(p, c);
        largest = fmaxf(largest, p->deviation[c]);
    }
    for (int64_t c = 0; c < p->channels; c++) {
        p->deviation[c] = fmaxf(p->deviation[c], largest > 0 ? 0.15f * largest : 1);
        for (int k = 0; k < p->groups; k++) {
            const struct pack_group *g = &p->group[k];
            int64_t hw = g->height * g->width;
            for (int64_t i = 0; i < g->n; i++)
                for (int64_t j = 0; j < hw; j++) {
                    float *x = &g->latent[(i * p->channels + c) * hw + j];
                    *x = (*x - p->mean[c]) / p->deviation[c];
                }
        }
    }
}

static int encode_captions(struct pack *p, const struct picture *all, struct err *err)
{
    json_t *names = json_array(), *texts = json_array();
    int64_t row = p->words * p->caption_channels;
    int rc = -1;
    caption_null(p->null, (int)p->words, (int)p->caption_channels);
    for (int64_t i = 0; i < p->n; i++) {
        caption_encode(p->caption + i * row, p->mask + i * p->words, all[i].caption, (int)p->words,
                       (int)p->caption_channels);
        if (json_array_append_new(names, json_string_nocheck(all[i].name)) < 0 ||
            json_array_append_new(texts, json_string(all[i].caption)) < 0) {
            err_set(err, ERR_DATA, "the caption of %s is not UTF-8", all[i].name);
            goto out;
        }
    }
    p->names = json_dumps(names, JSON_COMPACT);
    p->captions = json_dumps(texts, JSON_COMPACT);
    rc = p->names && p->captions ? 0 : -1;
out:
    json_decref(names);
    json_decref(texts);
    return rc == 0 ? 0 : err_set(err, ERR_MEMORY, "out of memory for captions");
}

int pack_fill(struct pack *p, const struct collection *c, const struct train_spec *s,
              pack_tick_fn tick, void *arg, struct err *err)
{
    p->n = collection_len(c);
    struct picture *all = calloc((size_t)p->n, sizeof(*all));
    int rc = -1;
    if (!all)
        return err_set(err, ERR_MEMORY, "out of memory for %lld pictures", (long long)p->n);
    p->channels = 3 * s->dct_block * s->dct_block;
    p->words = s->caption_words;
    p->caption_channels = s->caption_channels;
    if (encode_all(all, c, s, tick, arg, err) < 0)
        goto out;
    qsort(all, (size_t)p->n, sizeof(*all), by_shape);
    if (alloc(p, all, err) < 0)
        goto out;
    gather(p, all);
    standardise(p);
    rc = encode_captions(p, all, err);
out:
    free_pictures(all, p->n);
    return rc;
}
