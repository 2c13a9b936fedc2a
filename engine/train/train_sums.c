/* SPDX-License-Identifier: Apache-2.0 */
/* train_sums.c - gradients of all ranks added up, bucket by bucket, while the backward pass goes on */
#include "engine/contract/flight.h"
#include "engine/optim/step.h"
#include "engine/train/train_internal.h"

static size_t bytes_of(enum dist_type type)
{
    return type == DIST_I64 ? sizeof(int64_t) : sizeof(float);
}

struct bucket_plan train_sums_buckets(const struct train *t, enum dist_type type)
{
    if (!params_updates_all(t->params))
        return bucket_plan_units(params_shard(t->params));
    return bucket_plan_even(params_floats(t->params), bytes_of(type));
}

int train_sums_hand_over(struct train *t, struct bucket_plan *plan, size_t from, void *block,
                          enum dist_type type)
{
    struct dist *d = t->gpus ? t->gpus : t->dist;
    struct bucket b;
    while (bucket_plan_next(plan, from, &b)) {
        char *numbers = (char *)block + b.from * bytes_of(type);
        int rc = plan->units ? train_units_reduce(t, b.index, numbers, type)
                             : dist_all_reduce(d, numbers, b.to - b.from, type, DIST_SUM, &t->err);
        if (rc < 0)
            return train_ranks_failed(t);
    }
    return dist_poll(d, &t->err) < 0 ? train_ranks_failed(t) : 0;
}

void train_sums_begin_step(struct train *t)
{
    t->buckets = train_sums_buckets(t, DIST_F32);
}

int train_sums_ready(struct train *t, size_t from)
{
    if (t->env->world_size == 1 || !params_has_all(t->params))
        return 0;
    return train_sums_hand_over(t, &t->buckets, from, params_grads(t->params), DIST_F32);
}

int train_sums_finish(struct train *t)
{
    if (t->env->world_size == 1)
        return 0;
    flight_enter(t->flight, (uint64_t)t->at, PHASE_REDUCE);
    if (train_sums_ready(t, 0) < 0 || train_ranks_sum(t, &t->loss) < 0)
        return -1;
    return t->gpus ? train_ranks_wait(t) : 0;
}
