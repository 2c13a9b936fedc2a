/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.c - ddp and zero1, and what all ways share; see exchange.h */
#include "engine/train/exchange.h"

#include "engine/contract/flight.h"
#include "engine/optim/params.h"
#include "engine/train/train_ranks.h"
#include "engine/train/train_state.h"

struct dist *exchange_ranks(const struct train *t)
{
    return t->gpus ? t->gpus : t->dist;
}

int exchange_gather(struct train *t, int unit, float *block)
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

int exchange_sum_to_owners(struct train *t, void *numbers, size_t n)
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
