/* SPDX-License-Identifier: Apache-2.0 */
/* bucket_plan.c - see bucket_plan.h */
#include "engine/dist/bucket_plan.h"

#include "engine/dist/shard.h"

size_t bucket_plan_bytes(size_t bytes)
{
    enum { BUCKETS = 64 };
    size_t each = BUCKET_BYTES;
    while (each < BUCKET_BYTES_MOST && bytes > BUCKETS * each)
        each *= 2;
    return each;
}

struct bucket_plan bucket_plan_even(size_t numbers, size_t bytes_each)
{
    const size_t most = bucket_plan_bytes(numbers * bytes_each) / bytes_each;
    return (struct bucket_plan){.numbers = numbers, .most = most,
                                .left = (int)((numbers + most - 1) / most)};
}

struct bucket_plan bucket_plan_units(const struct shard *units)
{
    return (struct bucket_plan){.units = units, .left = shard_units(units)};
}

static struct bucket last_of(const struct bucket_plan *p)
{
    const int i = p->left - 1;
    if (p->units) {
        const struct shard_part u = shard_unit(p->units, i);
        return (struct bucket){i, u.from, u.to};
    }
    /* Buckets behind the first one are whole; the first one holds the remainder. */
    const size_t first = (p->numbers - 1) % p->most + 1, to = first + (size_t)i * p->most;
    return (struct bucket){i, i ? to - p->most : 0, to};
}

bool bucket_plan_next(struct bucket_plan *p, size_t complete, struct bucket *next)
{
    if (p->left == 0)
        return false;
    *next = last_of(p);
    if (next->from < complete)
        return false;
    p->left--;
    return true;
}
