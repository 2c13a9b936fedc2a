/* SPDX-License-Identifier: Apache-2.0 */
/* loader.c - see loader.h */
#include "engine/data/loader.h"

#include <stdlib.h>
#include <string.h>

#include "engine/contract/err.h"
#include "engine/contract/train_spec.h"
#include "engine/data/dataset.h"
#include "engine/model/flow.h"
#include "kernels/rng.h"

struct loader {
    const struct dataset *data;
    struct dataset_shape  shape;
    uint64_t              seed;
    int                   batch_micro;
    double                logit_mean, logit_std, dropout;
    struct batch_plan    *plan;
    struct batch_slot    *slots;
    float                *x0, *noise, *y, *mask, *caption;
    float                *null; /* what a dropped caption is, where that has a length of its own; or NULL */
    int                  *t_index;
    uint8_t              *drop;
};

static int create_plan(struct loader *l, const struct train_spec *s, struct err *err)
{
    int64_t *sizes = calloc((size_t)l->shape.buckets, sizeof(*sizes));
    if (!sizes)
        return err_set(err, ERR_MEMORY, "out of memory for %d buckets", l->shape.buckets);
    for (int b = 0; b < l->shape.buckets; b++)
        sizes[b] = dataset_bucket(l->data, b).samples;
    int rc = batch_plan_create(&l->plan, s->seed, s->batch_global, sizes, l->shape.buckets, err);
    free(sizes);
    return rc;
}

int loader_create(struct loader **out, const struct dataset *d, const struct train_spec *s,
                  struct err *err)
{
    struct loader *l = calloc(1, sizeof(*l));
    if (!l)
        return err_set(err, ERR_MEMORY, "out of memory for batches");
    l->data = d;
    l->shape = dataset_shape(d);
    l->seed = s->seed;
    l->batch_micro = s->batch_micro;
    l->logit_mean = s->logit_mean;
    l->logit_std = s->logit_std;
    l->dropout = (double)s->model.caption_dropout;
    size_t n = (size_t)s->batch_micro;
    size_t latent = (size_t)l->shape.channels * (size_t)l->shape.height * (size_t)l->shape.width;
    size_t row = (size_t)l->shape.words * (size_t)l->shape.caption_channels;
    l->x0 = calloc(n * latent, sizeof(float));
    l->noise = calloc(n * latent, sizeof(float));
    l->y = calloc(n * row, sizeof(float));
    l->caption = calloc(n * row, sizeof(float));
    l->mask = calloc(n * (size_t)l->shape.words * 2, sizeof(float));
    l->t_index = calloc(n, sizeof(*l->t_index));
    l->drop = calloc(n, 1);
    l->slots = calloc(n, sizeof(*l->slots));
    l->null = dataset_drops_length(d) ? calloc(row, sizeof(float)) : NULL;
    int ok =
        l->x0 && l->noise && l->y && l->caption && l->mask && l->t_index && l->drop && l->slots && (l->null || !dataset_drops_length(d));
    if (!ok || (l->null && dataset_null(d, l->null, err) < 0) || create_plan(l, s, err) < 0) {
        loader_destroy(l);
        return err_set(err, ERR_MEMORY, "out of memory for batches of %d samples", s->batch_micro);
    }
    *out = l;
    return 0;
}

void loader_destroy(struct loader *l)
{
    if (!l)
        return;
    batch_plan_destroy(l->plan);
    free(l->slots);
    free(l->x0);
    free(l->noise);
    free(l->y);
    free(l->caption);
    free(l->mask);
    free(l->t_index);
    free(l->drop);
    free(l->null);
    free(l);
}

struct batch_plan *loader_plan(struct loader *l)
{
    return l->plan;
}

const struct batch_slot *loader_slots(const struct loader *l)
{
    return l->slots;
}

/* Captions [n, words, D] to [n, text, D] with their masks, text = longest in use. */
static int cut_captions(struct loader *l, int n)
{
    const float *mask = l->mask + (size_t)l->batch_micro * (size_t)l->shape.words;
    size_t words = (size_t)l->shape.words, d = (size_t)l->shape.caption_channels;
    size_t text = 1;
    for (size_t i = 0; i < (size_t)n * words; i++)
        if (mask[i] > 0 && i % words + 1 > text)
            text = i % words + 1;
    for (size_t b = 0; b < (size_t)n; b++) {
        memcpy(l->y + b * text * d, l->caption + b * words * d, sizeof(float) * text * d);
        memcpy(l->mask + b * text, mask + b * words, sizeof(float) * text);
    }
    return (int)text;
}

/* The empty caption has one token, <bos>, as Lumina's authors have it. */
static void drop_whole(struct loader *l, int i, float *mask)
{
    const size_t row = (size_t)l->shape.words * (size_t)l->shape.caption_channels;
    memcpy(l->caption + (size_t)i * row, l->null, row * sizeof(float));
    for (int k = 0; k < l->shape.words; k++)
        mask[k] = k == 0;
    l->drop[i] = 0;
}

int loader_fill(struct loader *l, struct step_input *in, int64_t step, int from, int n,
                struct err *err)
{
    struct dataset_bucket bucket =
        dataset_bucket(l->data, batch_plan_at(l->plan, step).bucket);
    size_t latent = (size_t)l->shape.channels * (size_t)bucket.height * (size_t)bucket.width;
    size_t row = (size_t)l->shape.words * (size_t)l->shape.caption_channels;
    float *mask = l->mask + (size_t)l->batch_micro * (size_t)l->shape.words;
    if (n > l->batch_micro)
        return err_set(err, ERR_BUG, "a micro-batch of %d samples exceeds the limit of %d", n, l->batch_micro);
    batch_plan_slots(l->plan, l->slots, step, from, n);
    for (int i = 0; i < n; i++) {
        const struct batch_slot *s = &l->slots[i];
        uint64_t id = (uint64_t)s->sample;
        size_t at = (size_t)i;
        const struct dataset_turn turn = {l->seed, s->epoch};
        if (dataset_take(l->data, s->sample, &turn, l->x0 + at * latent, l->caption + at * row,
                         mask + at * (size_t)l->shape.words, err) < 0)
            return -1;
        struct rng noise = rng_make(l->seed, s->epoch, id, RNG_NOISE);
        struct rng level = rng_make(l->seed, s->epoch, id, RNG_TIMESTEP);
        struct rng drop = rng_make(l->seed, s->epoch, id, RNG_DROPOUT);
        rng_normal(&noise, l->noise + at * latent, 0, latent);
        l->t_index[i] = flow_index(rng_normal_at(&level, 0), l->logit_mean, l->logit_std);
        l->drop[i] = rng_uniform_at(&drop, 0) < l->dropout;
        if (l->drop[i] && l->null)
            drop_whole(l, i, mask + at * (size_t)l->shape.words);
    }
    *in = (struct step_input){
        .batch = n,
        .height = bucket.height,
        .width = bucket.width,
        .text = cut_captions(l, n),
        .x0 = l->x0,
        .noise = l->noise,
        .t_index = l->t_index,
        .y = l->y,
        .mask = l->mask,
        .drop = l->drop,
    };
    return 0;
}
