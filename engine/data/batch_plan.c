/* SPDX-License-Identifier: Apache-2.0 */
/* batch_plan.c - see batch_plan.h */
#include "engine/data/batch_plan.h"

#include <stdlib.h>

#include "engine/base/err.h"
#include "kernels/rng.h"

/* The order of a bucket's samples in one epoch. */
struct submission {
    int64_t  epoch; /* -1: none yet */
    int64_t *at;
};

struct bucket {
    int64_t           first, size;
    int64_t           turn; /* scratch for listing an epoch */
    struct submission orders[2]; /* of even and odd epochs */
};

struct batch_plan {
    uint64_t       seed;
    int            batch, buckets;
    int64_t        samples;
    struct bucket *bucket;
    /* the batches of one epoch; unused with one bucket */
    int64_t        epoch; /* -1: none yet */
    struct batch  *list;
};

void batch_plan_destroy(struct batch_plan *p)
{
    if (!p)
        return;
    for (int b = 0; p->bucket && b < p->buckets; b++)
        for (int i = 0; i < 2; i++)
            free(p->bucket[b].orders[i].at);
    free(p->bucket);
    free(p->list);
    free(p);
}

static int add_bucket(struct batch_plan *p, struct bucket *b, int64_t size, struct err *err)
{
    if (size < 1)
        return err_set(err, ERR_BUG, "a bucket has %lld samples", (long long)size);
    b->first = p->samples;
    b->size = size;
    p->samples += size;
    for (int i = 0; i < 2; i++) {
        b->orders[i].epoch = -1;
        b->orders[i].at = calloc((size_t)size, sizeof(int64_t));
        if (!b->orders[i].at)
            return err_set(err, ERR_MEMORY, "out of memory for the order of %lld samples", (long long)size);
    }
    return 0;
}

int batch_plan_create(struct batch_plan **out, uint64_t seed, int batch, const int64_t *sizes,
                      int buckets, struct err *err)
{
    struct batch_plan *p = calloc(1, sizeof(*p));
    if (!p)
        return err_set(err, ERR_MEMORY, "out of memory for a plan of batches");
    *p = (struct batch_plan){.seed = seed, .batch = batch, .buckets = buckets, .epoch = -1};
    p->bucket = calloc((size_t)buckets, sizeof(*p->bucket));
    int64_t most = 0; /* batches of an epoch */
    int rc = p->bucket ? 0 : err_set(err, ERR_MEMORY, "out of memory for %d buckets", buckets);
    for (int b = 0; rc == 0 && b < buckets; b++) {
        rc = add_bucket(p, &p->bucket[b], sizes[b], err);
        most += sizes[b] / batch + 1;
    }
    if (rc == 0 && buckets > 1) {
        p->list = calloc((size_t)most, sizeof(*p->list));
        if (!p->list)
            rc = err_set(err, ERR_MEMORY, "out of memory for an epoch of %lld batches", (long long)most);
    }
    if (rc < 0) {
        batch_plan_destroy(p);
        return -1;
    }
    *out = p;
    return 0;
}

/* Batches that a bucket has completed before an epoch. */
static int64_t turns_before(const struct batch_plan *p, int bucket, int64_t epoch)
{
    return epoch * p->bucket[bucket].size / p->batch;
}

int64_t batch_plan_begin(const struct batch_plan *p, int64_t epoch)
{
    int64_t steps = 0;
    for (int b = 0; b < p->buckets; b++)
        steps += turns_before(p, b, epoch);
    return steps;
}

/* The epoch of a step. An epoch may have no step at all. */
static int64_t epoch_of(const struct batch_plan *p, int64_t step)
{
    int64_t low = 0, high = (step + 1 + p->buckets) * p->batch / p->samples + 1;
    while (low < high) { /* the first whose end is beyond the step */
        int64_t middle = low + (high - low) / 2;
        if (batch_plan_begin(p, middle + 1) > step)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The batches of an epoch, those of one bucket in order. */
static void list_batches(struct batch_plan *p, int64_t epoch)
{
    struct rng r = rng_make(p->seed, (uint32_t)epoch, 0, RNG_BUCKETS);
    int64_t n = 0;
    for (int b = 0; b < p->buckets; b++) {
        int64_t end = turns_before(p, b, epoch + 1);
        p->bucket[b].turn = turns_before(p, b, epoch);
        for (int64_t k = p->bucket[b].turn; k < end; k++)
            p->list[n++].bucket = b;
    }
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t k = (int64_t)rng_below(&r, (uint64_t)i, (uint64_t)i + 1);
        int swap = p->list[i].bucket;
        p->list[i].bucket = p->list[k].bucket;
        p->list[k].bucket = swap;
    }
    for (int64_t i = 0; i < n; i++) {
        p->list[i].epoch = epoch;
        p->list[i].turn = p->bucket[p->list[i].bucket].turn++;
    }
    p->epoch = epoch;
}

struct batch batch_plan_at(struct batch_plan *p, int64_t step)
{
    int64_t epoch = epoch_of(p, step);
    if (p->buckets == 1)
        return (struct batch){.bucket = 0, .epoch = epoch, .turn = step};
    if (p->epoch != epoch)
        list_batches(p, epoch);
    return p->list[step - batch_plan_begin(p, epoch)];
}

static const int64_t *order_of(const struct batch_plan *p, int bucket, int64_t epoch)
{
    struct bucket *b = &p->bucket[bucket];
    struct submission *o = &b->orders[epoch & 1];
    if (o->epoch == epoch)
        return o->at;
    struct rng r = rng_make(p->seed, (uint32_t)epoch, (uint64_t)bucket, RNG_SHUFFLE);
    for (int64_t i = 0; i < b->size; i++)
        o->at[i] = b->first + i;
    for (int64_t i = b->size - 1; i > 0; i--) {
        int64_t k = (int64_t)rng_below(&r, (uint64_t)i, (uint64_t)i + 1);
        int64_t swap = o->at[i];
        o->at[i] = o->at[k];
        o->at[k] = swap;
    }
    o->epoch = epoch;
    return o->at;
}

void batch_plan_slots(struct batch_plan *p, struct batch_slot *slots, int64_t step, int from, int n)
{
    struct batch batch = batch_plan_at(p, step);
    int64_t size = p->bucket[batch.bucket].size;
    for (int i = 0; i < n; i++) {
        int64_t place = batch.turn * p->batch + from + i;
        slots[i].epoch = (uint32_t)(place / size);
        slots[i].sample = order_of(p, batch.bucket, place / size)[place % size];
    }
}

int64_t batch_plan_batches(struct batch_plan *p, int bucket, int64_t steps)
{
    int64_t epoch = epoch_of(p, steps), begin = batch_plan_begin(p, epoch);
    int64_t n = turns_before(p, bucket, epoch);
    for (int64_t i = begin; i < steps; i++)
        n += batch_plan_at(p, i).bucket == bucket;
    return n;
}
