/* SPDX-License-Identifier: Apache-2.0 */
/* loader.c - see loader.h */
#include "engine/data/loader.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/contract/train_spec.h"
#include "engine/data/background.h"
#include "engine/data/dataset.h"
#include "engine/model/flow.h"
#include "kernels/bf16.h"
#include "kernels/rng.h"

enum { LINE = 4096 }; /* pages are pinned as a whole */

/* One micro-batch in memory, and which one it is. */
struct loaded {
    void              *memory;  /* of x0, noise or its streams, y and mask */
    size_t             bytes;
    bool               pinned;
    struct batch_slot *slots;
    float             *x0, *mask, *caption;
    float             *noise;   /* or NULL ... */
    struct rng        *streams; /* ... or NULL */
    void              *y;       /* of fp32 or bf16 */
    int               *t_index;
    uint8_t           *drop;
    int64_t            step;    /* -1: none */
    int                from, n;
    struct step_input  in;
    struct err         err;     /* ERR_NONE: it could be read */
    struct loader     *loader;
};

struct loader {
    const struct dataset *data;
    struct dataset_shape  shape;
    uint64_t              seed;
    int                   batch_micro;
    double                logit_mean, logit_std, dropout;
    struct batch_plan    *plan;
    float                *null; /* what a dropped caption is, where that has a length of its own; or NULL */
    struct loaded         loaded[2]; /* the second: see loader_ahead() */
    int                   now;       /* the last that was asked for */
    struct background     thread;    /* fills the other one */
    struct loader_device  device;
    struct loader_counts  counts;
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

static size_t whole(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

static size_t caption_bytes(const struct loader *l)
{
    return l->device.bf16 ? sizeof(uint16_t) : sizeof(float);
}

/* x0, noise or its streams, y and mask, which go to the device, are in one piece. */
static void place(const struct loader *l, struct loaded *b, size_t latents, size_t noise, size_t captions)
{
    void *const at = (char *)b->memory + latents;
    b->x0 = b->memory;
    b->noise = l->device.draws ? NULL : at;
    b->streams = l->device.draws ? at : NULL;
    b->y = (char *)at + noise;
    b->mask = (float *)(void *)((char *)b->y + captions);
}

static int alloc_loaded(struct loader *l, struct loaded *b, struct err *err)
{
    const size_t n = (size_t)l->batch_micro, words = (size_t)l->shape.words;
    const size_t pixels = (size_t)l->shape.height * (size_t)l->shape.width;
    const size_t latent = whole(n * (size_t)l->shape.channels * pixels * sizeof(float));
    const size_t noise = l->device.draws ? whole(n * sizeof(struct rng)) : latent;
    const size_t row = n * words * (size_t)l->shape.caption_channels, captions = whole(row * caption_bytes(l));
    b->loader = l;
    b->step = -1;
    b->bytes = latent + noise + captions + whole(2 * n * words * sizeof(float));
    b->memory = aligned_alloc(LINE, b->bytes);
    b->caption = calloc(row, sizeof(float));
    b->t_index = calloc(n, sizeof(*b->t_index));
    b->drop = calloc(n, 1);
    b->slots = calloc(n, sizeof(*b->slots));
    if (!b->memory || !b->caption || !b->t_index || !b->drop || !b->slots)
        return err_set(err, ERR_MEMORY, "out of memory for batches of %d samples", l->batch_micro);
    memset(b->memory, 0, b->bytes);
    place(l, b, latent, noise, captions);
    b->pinned = l->device.pin && l->device.pin(b->memory, b->bytes) == 0;
    return 0;
}

static void free_loaded(struct loader *l, struct loaded *b)
{
    if (b->pinned)
        l->device.unpin(b->memory, b->bytes);
    free(b->memory);
    free(b->caption);
    free(b->t_index);
    free(b->drop);
    free(b->slots);
    *b = (struct loaded){.memory = NULL};
}

int loader_create(struct loader **out, const struct dataset *d, const struct train_spec *s,
                  const struct loader_device *device, struct err *err)
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
    l->device = device ? *device : (struct loader_device){.pin = NULL};
    const size_t row = (size_t)l->shape.words * (size_t)l->shape.caption_channels;
    const bool drops_length = dataset_drops_length(d);
    l->null = drops_length ? calloc(row, sizeof(float)) : NULL;
    if ((drops_length && !l->null) || alloc_loaded(l, &l->loaded[0], err) < 0 ||
        (l->null && dataset_null(d, l->null, err) < 0) || create_plan(l, s, err) < 0) {
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
    background_wait(&l->thread);
    batch_plan_destroy(l->plan);
    free_loaded(l, &l->loaded[0]);
    free_loaded(l, &l->loaded[1]);
    free(l->null);
    free(l);
}

struct batch_plan *loader_plan(struct loader *l)
{
    return l->plan;
}

const struct batch_slot *loader_slots(const struct loader *l)
{
    return l->loaded[l->now].slots;
}

struct loader_counts loader_counts(const struct loader *l)
{
    return l->counts;
}

static void put_caption(const struct loader *l, struct loaded *b, size_t at, const float *from, size_t n)
{
    if (l->device.bf16)
        bf16_round((uint16_t *)b->y + at, from, n);
    else
        memcpy((float *)b->y + at, from, n * sizeof(*from));
}

/* Captions [n, words, D] to [n, text, D] with their masks, text = longest in use. */
static int cut_captions(const struct loader *l, struct loaded *b)
{
    const float *mask = b->mask + (size_t)l->batch_micro * (size_t)l->shape.words;
    const size_t words = (size_t)l->shape.words, d = (size_t)l->shape.caption_channels, n = (size_t)b->n;
    size_t text = 1;
    for (size_t i = 0; i < n * words; i++)
        if (mask[i] > 0 && i % words + 1 > text)
            text = i % words + 1;
    for (size_t i = 0; i < n; i++) {
        put_caption(l, b, i * text * d, b->caption + i * words * d, text * d);
        memcpy(b->mask + i * text, mask + i * words, sizeof(float) * text);
    }
    return (int)text;
}

/* The empty caption has one token, <bos>, as Lumina's authors have it. */
static void drop_whole(const struct loader *l, struct loaded *b, size_t i, float *mask)
{
    const size_t row = (size_t)l->shape.words * (size_t)l->shape.caption_channels;
    memcpy(b->caption + i * row, l->null, row * sizeof(float));
    for (int k = 0; k < l->shape.words; k++)
        mask[k] = k == 0;
    b->drop[i] = 0;
}

static int read_sample(const struct loader *l, struct loaded *b, size_t i, size_t latent, struct err *err)
{
    const struct batch_slot *s = &b->slots[i];
    const size_t row = (size_t)l->shape.words * (size_t)l->shape.caption_channels;
    float *mask = b->mask + ((size_t)l->batch_micro + i) * (size_t)l->shape.words;
    const struct dataset_turn turn = {l->seed, s->epoch};
    if (dataset_take(l->data, s->sample, &turn, b->x0 + i * latent, b->caption + i * row, mask, err) < 0)
        return -1;
    const uint64_t id = (uint64_t)s->sample;
    const struct rng noise = rng_make(l->seed, s->epoch, id, RNG_NOISE);
    const struct rng level = rng_make(l->seed, s->epoch, id, RNG_TIMESTEP);
    const struct rng drop = rng_make(l->seed, s->epoch, id, RNG_DROPOUT);
    if (b->streams)
        b->streams[i] = noise;
    else
        rng_normal(&noise, b->noise + i * latent, 0, latent);
    b->t_index[i] = flow_index(rng_normal_at(&level, 0), l->logit_mean, l->logit_std);
    b->drop[i] = rng_uniform_at(&drop, 0) < l->dropout;
    if (b->drop[i] && l->null)
        drop_whole(l, b, i, mask);
    return 0;
}

/* Its step, samples and size are known: reads them. A failure is in b->err. */
static void load(void *arg)
{
    struct loaded *b = arg;
    const struct loader *l = b->loader;
    const size_t latent = (size_t)l->shape.channels * (size_t)b->in.height * (size_t)b->in.width;
    for (int i = 0; i < b->n; i++)
        if (read_sample(l, b, (size_t)i, latent, &b->err) < 0)
            return;
    b->in.text = cut_captions(l, b);
}

/* The plan is the caller's, not the thread's. */
static void request(struct loader *l, struct loaded *b, int64_t step, int from, int n)
{
    const struct dataset_bucket bucket = dataset_bucket(l->data, batch_plan_at(l->plan, step).bucket);
    b->step = step;
    b->from = from;
    b->n = n;
    b->err = (struct err){0};
    batch_plan_slots(l->plan, b->slots, step, from, n);
    b->in = (struct step_input){.batch = n, .height = bucket.height, .width = bucket.width, .x0 = b->x0,
                                .noise = b->noise, .streams = b->streams, .t_index = b->t_index,
                                .y = l->device.bf16 ? NULL : b->y, .y_bf16 = l->device.bf16 ? b->y : NULL,
                                .mask = b->mask, .drop = b->drop};
}

static int check_size(const struct loader *l, int n, struct err *err)
{
    if (n <= l->batch_micro)
        return 0;
    return err_set(err, ERR_BUG, "a micro-batch of %d samples exceeds the limit of %d", n, l->batch_micro);
}

int loader_ahead(struct loader *l, int64_t step, int from, int n, struct err *err)
{
    struct loaded *b = &l->loaded[!l->now];
    if (check_size(l, n, err) < 0)
        return -1;
    background_wait(&l->thread);
    if (!b->memory && alloc_loaded(l, b, err) < 0) {
        free_loaded(l, b);
        return -1;
    }
    request(l, b, step, from, n);
    background_start(&l->thread, load, b);
    return 0;
}

int loader_fill(struct loader *l, struct step_input *in, int64_t step, int from, int n, struct err *err)
{
    struct loaded *b = &l->loaded[!l->now];
    if (check_size(l, n, err) < 0)
        return -1;
    background_wait(&l->thread);
    l->counts.all++;
    if (b->memory && b->step == step && b->from == from && b->n == n) {
        l->now = !l->now;
        l->counts.ahead++;
    } else {
        b = &l->loaded[l->now];
        request(l, b, step, from, n);
        load(b);
    }
    *in = b->in;
    if (b->err.code == ERR_NONE)
        return 0;
    if (err)
        *err = b->err;
    return -1;
}
