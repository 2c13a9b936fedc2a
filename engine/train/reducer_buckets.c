/* SPDX-License-Identifier: Apache-2.0 */
/* reducer_buckets.c - gradients sent to other ranks bucket by bucket; see reducer.h */
#include "engine/optim/params.h"
#include "engine/train/reducer.h"
#include "engine/train/train_internal.h"

static size_t bytes_each(const struct train *t)
{
    return t->reducer->type == DIST_I64 ? sizeof(int64_t) : sizeof(float);
}

/* With zero1 a bucket is a unit, whose sum goes to its owners only. */
void reducer_buckets_begin(struct train *t)
{
    t->buckets = params_updates_all(t->params) ? bucket_plan_even(params_floats(t->params), bytes_each(t))
                                               : bucket_plan_units(params_shard(t->params));
}

int reducer_buckets_send(struct train *t, size_t from, void *block)
{
    struct dist *d = t->gpus ? t->gpus : t->dist;
    struct bucket b;
    while (bucket_plan_next(&t->buckets, from, &b)) {
        char *numbers = (char *)block + b.from * bytes_each(t);
        const int rc = t->buckets.units
                           ? train_units_reduce(t, b.index, numbers)
                           : dist_all_reduce(d, numbers, b.to - b.from, t->reducer->type, DIST_SUM, &t->err);
        if (rc < 0)
            return train_ranks_failed(t);
    }
    return dist_poll(d, &t->err) < 0 ? train_ranks_failed(t) : 0;
}
