/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.c - ddp and zero1, and what all ways share; see exchange.h */
#include "engine/train/exchange.h"

#include <stdlib.h>

#include "engine/contract/flight.h"
#include "engine/dist/prefetch.h"
#include "engine/model/backend.h"
#include "engine/optim/params.h"
#include "engine/optim/step.h"
#include "engine/train/train_ranks.h"
#include "engine/train/train_state.h"
#include "kernels/kernels.h"

/* The ranks whose device has the numbers. */
static struct dist *exchange_ranks(const struct train *t)
{
    return t->gpus ? t->gpus : t->dist;
}

/* Starts to gather a unit in `block`, which has this rank's part in its place. */
static int exchange_gather(struct train *t, int unit, float *block)
{
    const struct shard *s = params_shard(t->params);
    const struct shard_part u = shard_unit(s, unit);
    struct dist *d = exchange_ranks(t);
    if (shard_cut(s) == SHARD_EVEN)
        return dist_all_gather(d, block, u.to - u.from, DIST_F32, &t->err);
    for (int r = 0; r < shard_world(s); r++) {
        const struct shard_part p = shard_part(s, unit, r);
        if (p.to > p.from && dist_broadcast(d, block + (p.from - u.from), p.to - p.from, DIST_F32, r, &t->err) < 0)
            return -1;
    }
    return 0;
}

static int sum_everywhere(struct train *t, void *numbers, size_t n)
{
    return dist_all_reduce(exchange_ranks(t), numbers, n, t->numbers->type, DIST_SUM, &t->err);
}

/* exchange.sum() to the ranks that own the numbers. */
static int exchange_sum_to_owners(struct train *t, void *numbers, size_t n)
{
    if (shard_cut(params_shard(t->params)) != SHARD_EVEN)
        return sum_everywhere(t, numbers, n);
    return dist_reduce_scatter(exchange_ranks(t), numbers, n, t->numbers->type, DIST_SUM, &t->err);
}

static size_t bytes_each(const struct train *t)
{
    return t->numbers->type == DIST_I64 ? sizeof(int64_t) : sizeof(float);
}

int exchange_send(struct train *t, size_t from, void *block)
{
    struct bucket b;
    while (bucket_plan_next(&t->buckets, from, &b))
        if (t->exchange->sum(t, (char *)block + b.from * bytes_each(t), b.to - b.from) < 0)
            return train_ranks_failed(t);
    return dist_poll(exchange_ranks(t), &t->err) < 0 ? train_ranks_failed(t) : 0;
}

static int nothing(struct train *t)
{
    (void)t;
    return 0;
}

static void begin_even(struct train *t)
{
    t->buckets = bucket_plan_even(params_floats(t->params), bytes_each(t));
}

const struct exchange exchange_ddp = {nothing, begin_even, sum_everywhere, nothing};

static void begin_units(struct train *t)
{
    t->buckets = bucket_plan_units(params_shard(t->params));
}

static int gather_weights(struct train *t)
{
    const struct shard *s = params_shard(t->params);
    float *weights = params_weights(t->params);
    if (t->env->world_size == 1)
        return 0;
    flight_enter(t->flight, (uint64_t)t->at, PHASE_REDUCE);
    for (int u = 0; u < shard_units(s); u++)
        if (exchange_gather(t, u, weights + shard_unit(s, u).from) < 0)
            return train_ranks_failed(t);
    if (train_ranks_wait(t) < 0)
        return -1;
    params_round(t->params); /* those of other ranks have no narrow copy yet */
    return 0;
}

const struct exchange exchange_zero1 = {nothing, begin_units, exchange_sum_to_owners, gather_weights};

/* All weights of a unit, gathered or being gathered. */
struct gathered {
    float   *weights;
    void    *narrow;   /* the weights, narrow; themselves where that is fp32 */
    uint64_t call;     /* the last call of the gather */
    bool     here;
};

/* Gradients of a unit, being computed or sent. */
struct leaving {
    float   *grads;
    int64_t *sums;     /* the reducer adds integers; else NULL */
    void    *numbers;  /* what is sent: grads or sums */
    int      unit;     /* being sent; or -1 */
    uint64_t call;
};

struct exchange_units {
    struct prefetch   turns;
    struct gathered   gathered[UNIT_SLOTS];
    struct leaving    leaving[UNIT_SLOTS];
    void             *array[4 * UNIT_SLOTS]; /* all of them, to release */
    int               arrays;
};

static void begin_gather(struct train *t, struct unit_fetch f)
{
    const struct shard_part u = shard_unit(params_shard(t->params), f.unit), p = params_part(t->params, f.unit);
    struct gathered *g = &t->units->gathered[f.slot];
    backend_ops()->copy(g->weights + (p.from - u.from), params_weights(t->params) + p.at, p.to - p.from);
    if (exchange_gather(t, f.unit, g->weights) < 0)
        train_ranks_failed(t);
    g->call = dist_begun(exchange_ranks(t));
    g->here = false;
}

static void await(struct train *t, struct gathered *g, struct shard_part u)
{
    if (!g->here && train_ranks_wait_call(t, exchange_ranks(t), g->call) == 0 && !backend_ops()->host)
        backend_ops()->round(g->narrow, g->weights, u.to - u.from);
    g->here = true;
}

/* A failure stays in t->err, where the caller of the model finds it. */
static void need(void *arg, int unit, float **weights, void **narrow, float **grads)
{
    struct train *t = arg;
    struct exchange_units *x = t->units;
    const struct shard_part u = shard_unit(params_shard(t->params), unit);
    const int next = grads ? unit - 1 : unit + 1 < shard_units(params_shard(t->params)) ? unit + 1 : -1;
    struct unit_fetch fetch[UNIT_SLOTS];
    const int fetches = prefetch_take(&x->turns, unit, next, fetch);
    struct gathered *g = &x->gathered[x->turns.now];
    for (int i = 0; i < fetches && t->err.code == ERR_NONE; i++)
        begin_gather(t, fetch[i]);
    if (t->err.code == ERR_NONE)
        await(t, g, u);
    *weights = g->weights;
    *narrow = g->narrow;
    if (!grads)
        return;
    struct leaving *l = &x->leaving[unit % x->turns.slots];
    backend_ops()->zero(l->grads, u.to - u.from);
    *grads = l->grads;
}

/* Waits for the sum of a unit and adds this rank's part to the gradients of the step. */
static void arrive(struct train *t, struct leaving *l)
{
    if (l->unit < 0 || t->err.code != ERR_NONE || train_ranks_wait_call(t, exchange_ranks(t), l->call) < 0)
        return;
    const struct shard_part u = shard_unit(params_shard(t->params), l->unit), p = params_part(t->params, l->unit);
    t->numbers->unit_in(t, p, l->numbers, p.from - u.from);
    l->unit = -1;
}

/* With two slots, the unit before this one was sent during its backward pass. */
static void done(void *arg, int unit)
{
    struct train *t = arg;
    struct exchange_units *x = t->units;
    struct leaving *l = &x->leaving[unit % x->turns.slots];
    const struct shard_part u = shard_unit(params_shard(t->params), unit);
    if (t->err.code != ERR_NONE)
        return;
    l->numbers = t->numbers->unit_out(t, u, l->grads, l->sums);
    if (exchange_sum_to_owners(t, l->numbers, u.to - u.from) < 0) {
        train_ranks_failed(t);
        return;
    }
    l->unit = unit;
    l->call = dist_begun(exchange_ranks(t));
    if (x->turns.slots > 1)
        arrive(t, &x->leaving[(unit + 1) % x->turns.slots]);
    if (x->turns.slots == 1 || unit == 0)
        arrive(t, l);
}

/* A kernel array, or NULL with t->err. */
static void *array_of(struct train *t, size_t bytes)
{
    void *p = t->err.code == ERR_NONE ? backend_alloc(backend_ops(), bytes, USE_EXCHANGE, &t->err) : NULL;
    t->units->array[t->units->arrays++] = p;
    return p;
}

static int alloc_units(struct train *t, struct exchange_units *x, size_t floats)
{
    const size_t narrow = backend_ops()->narrow;
    for (int i = 0; i < x->turns.slots; i++) {
        struct gathered *g = &x->gathered[i];
        struct leaving *l = &x->leaving[i];
        g->weights = array_of(t, floats * sizeof(*g->weights));
        g->narrow = narrow < sizeof(float) ? array_of(t, floats * narrow) : g->weights;
        l->grads = array_of(t, floats * sizeof(*l->grads));
        l->sums = t->numbers->type == DIST_I64 ? array_of(t, floats * sizeof(*l->sums)) : NULL;
    }
    return t->err.code == ERR_NONE ? 0 : -1;
}

static int open(struct train *t)
{
    struct exchange_units *x = calloc(1, sizeof(*x));
    const struct model_units units = {need, done, t};
    if (!x)
        return err_set(&t->err, ERR_MEMORY, "no memory for units of the model");
    t->units = x;
    x->turns.slots = t->gpus ? UNIT_SLOTS : 1;
    model_on_units(step_model(t->step), &units);
    return alloc_units(t, x, shard_widest(params_shard(t->params)));
}

void exchange_fsdp_close(struct train *t)
{
    for (int i = 0; t->units && i < t->units->arrays; i++)
        backend_ops()->release(t->units->array[i]);
    free(t->units);
}

static void begin(struct train *t)
{
    struct exchange_units *x = t->units;
    x->turns = prefetch_begin(x->turns.slots);
    for (int i = 0; i < UNIT_SLOTS; i++)
        x->leaving[i].unit = -1;
}

/* Each rank has what it needs. */
static int updated(struct train *t)
{
    (void)t;
    return 0;
}

const struct exchange exchange_fsdp = {open, begin, exchange_sum_to_owners, updated};
