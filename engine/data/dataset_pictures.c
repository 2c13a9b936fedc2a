/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_pictures.c - samples that are pictures, encoded by DCT when the data set is opened, and captions, hashed on
 * access; see dataset.h
 *
 * Latents are standardised per channel; the deviation has a floor of 0.15 of the largest, so that invisible frequencies
 * are not amplified.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/collection/caption.h"
#include "engine/collection/collection.h"
#include "engine/contract/train_spec.h"
#include "engine/data/dataset_internal.h"
#include "engine/image/dct.h"
#include "engine/image/image.h"

struct picture {
    int64_t index; /* in the collection */
    int     height, width; /* of its latent */
    float  *latent;
    char   *name, *caption; /* of several captions the one with the best score */
};

static size_t positions(const struct picture *p)
{
    return (size_t)p->height * (size_t)p->width;
}

void dataset_pictures_close(struct dataset *d)
{
    for (int64_t i = 0; d->pictures && i < d->npictures; i++) {
        free(d->pictures[i].latent);
        free(d->pictures[i].name);
        free(d->pictures[i].caption);
    }
    free(d->pictures);
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

static int compare_sizes(const struct picture *p, const struct picture *first, const struct train_spec *s,
                         struct err *err)
{
    int b = s->dct_block;
    if (s->multi_scale || (p->height == first->height && p->width == first->width))
        return 0;
    return err_set(err, ERR_DATA, "%s/%s is %d x %d pixels, but %s is %d x %d; set train.data.resolution", s->data_path,
                   p->name, p->width * b, p->height * b, first->name, first->width * b, first->height * b);
}

static int encode_all(struct dataset *d, const struct collection *c, const struct train_spec *s, dataset_tick_fn tick,
                      void *arg, struct err *err)
{
    const int64_t n = d->npictures;
    struct picture *all = d->pictures;
    for (int64_t i = 0; i < n; i++) {
        all[i].index = i;
        if (encode(&all[i], c, s, err) < 0 || compare_sizes(&all[i], &all[0], s, err) < 0)
            return -1;
        if (tick && !tick(arg, i + 1, n))
            return err_set(err, ERR_CONFLICT, "stopped on request with %lld of %lld pictures encoded; the next start "
                                              "begins again", (long long)i + 1, (long long)n);
    }
    return 0;
}

/* Of one shape as in the folder. */
static int by_shape(const void *a, const void *b)
{
    const struct picture *x = a, *y = b;
    int64_t order = dataset_shape_order(x->height, x->width, y->height, y->width);
    if (order == 0)
        order = x->index - y->index;
    return (order > 0) - (order < 0);
}

/* Mean and deviation of a channel over all pictures. */
static void measure(struct dataset *d, size_t c)
{
    double sum = 0, square = 0;
    size_t count = 0;
    for (int64_t i = 0; i < d->npictures; i++) {
        const size_t n = positions(&d->pictures[i]);
        const float *x = d->pictures[i].latent + c * n;
        count += n;
        for (size_t k = 0; k < n; k++) {
            sum += (double)x[k];
            square += (double)x[k] * (double)x[k];
        }
    }
    double mean = sum / (double)count;
    double var = square / (double)count - mean * mean;
    d->mean[c] = (float)mean;
    d->deviation[c] = (float)sqrt(var > 0 ? var : 0);
}

static int standardise(struct dataset *d, struct err *err)
{
    const size_t channels = (size_t)d->shape.channels;
    float largest = 0;
    d->mean = calloc(channels, sizeof(float));
    d->deviation = calloc(channels, sizeof(float));
    if (!d->mean || !d->deviation)
        return err_set(err, ERR_MEMORY, "out of memory for %zu channels", channels);
    for (size_t c = 0; c < channels; c++) {
        measure(d, c);
        largest = fmaxf(largest, d->deviation[c]);
    }
    for (size_t c = 0; c < channels; c++) {
        d->deviation[c] = fmaxf(d->deviation[c], largest > 0 ? 0.15f * largest : 1);
        for (int64_t i = 0; i < d->npictures; i++) {
            const size_t n = positions(&d->pictures[i]);
            float *x = d->pictures[i].latent + c * n;
            for (size_t k = 0; k < n; k++)
                x[k] = (x[k] - d->mean[c]) / d->deviation[c];
        }
    }
    return 0;
}

static int digest_pictures(struct dataset *d, struct err *err)
{
    const int settings[] = {d->block, d->shape.words, d->shape.caption_channels};
    struct digest *sum;
    if (digest_create(&sum, err) < 0)
        return -1;
    digest_add(sum, settings, sizeof(settings));
    for (int64_t i = 0; i < d->npictures; i++) {
        const struct picture *p = &d->pictures[i];
        const int size[] = {p->height, p->width};
        digest_add(sum, size, sizeof(size));
        digest_add(sum, p->latent, sizeof(float) * (size_t)d->shape.channels * positions(p));
        digest_add_text(sum, p->caption);
    }
    digest_text(sum, d->digest);
    digest_destroy(sum);
    return 0;
}

int dataset_pictures_open(struct dataset *d, const struct train_spec *s, dataset_tick_fn tick, void *arg,
                          struct err *err)
{
    struct collection_options o;
    struct collection *c = NULL;
    int rc = -1;
    collection_options(&o, s);
    if (collection_open(&c, &o, NULL, NULL, err) < 0)
        return -1;
    d->block = s->dct_block;
    d->npictures = collection_len(c);
    d->shape = (struct dataset_shape){.channels = 3 * d->block * d->block, .words = s->caption_words,
                                      .caption_channels = s->caption_channels};
    d->pictures = calloc((size_t)d->npictures, sizeof(*d->pictures));
    if (!d->pictures) {
        err_set(err, ERR_MEMORY, "out of memory for %lld pictures", (long long)d->npictures);
        goto out;
    }
    if (encode_all(d, c, s, tick, arg, err) < 0)
        goto out;
    qsort(d->pictures, (size_t)d->npictures, sizeof(*d->pictures), by_shape);
    for (int64_t i = 0; i < d->npictures; i++)
        if (dataset_bucket_add(d, 1, d->pictures[i].height, d->pictures[i].width, err) < 0)
            goto out;
    if (standardise(d, err) == 0)
        rc = digest_pictures(d, err);
out:
    collection_close(c);
    return rc;
}

void dataset_pictures_get(const struct dataset *d, int64_t i, float *latent, float *caption, float *mask)
{
    const struct picture *p = &d->pictures[i];
    if (latent)
        memcpy(latent, p->latent, sizeof(float) * (size_t)d->shape.channels * positions(p));
    if (caption || mask)
        caption_encode(caption, mask, p->caption, d->shape.words, d->shape.caption_channels);
}

const char *dataset_pictures_name(const struct dataset *d, int64_t i)
{
    return d->pictures[i].name;
}

const char *dataset_pictures_caption(const struct dataset *d, int64_t i)
{
    return d->pictures[i].caption;
}
