/* SPDX-License-Identifier: Apache-2.0 */
/* fixed_ref.c - fixed-point sums on the CPU (fixed.h), elementwise: threads do not matter */
#include <math.h>
#include <stdbool.h>

#include "kernels/fixed.h"
#include "kernels/isa_table.h"
#include "kernels/kernels.h"
#include "kernels/simd.h"
#include "kernels/thread_pool.h"

enum { UNIT = 4096 };

struct adding {
    int64_t     *sum;
    const float *x;
    double       scale;
    uint32_t    *most;
};

static uint32_t add_some(int64_t *sum, const float *x, size_t n, double scale)
{
    uint32_t most[LANES] = {0}, all = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        uint32_t bits[LANES];
        double scaled[LANES];
        memcpy(bits, x + i, sizeof(bits));
        for (int k = 0; k < LANES; k++)
            scaled[k] = (double)x[i + (size_t)k] * scale;
        for (int k = 0; k < LANES; k++)
            sum[i + (size_t)k] = fixed_plus(sum[i + (size_t)k], fixed_of(scaled[k]));
        for (int k = 0; k < LANES; k++) {
            int32_t a = (int32_t)(bits[k] & 0x7FFFFFFF), b = (int32_t)most[k];
            most[k] = (uint32_t)(a > b ? a : b);
        }
    }
    for (; i < n; i++) {
        sum[i] = fixed_plus(sum[i], fixed_of((double)x[i] * scale));
        most[0] = fixed_size(x[i]) > most[0] ? fixed_size(x[i]) : most[0];
    }
    for (int k = 0; k < LANES; k++)
        all = most[k] > all ? most[k] : all;
    return all;
}

static void add_range(const void *arg, size_t from, size_t to)
{
    const struct adding *a = arg;
    uint32_t most = add_some(a->sum + from, a->x + from, to - from, a->scale);
    uint32_t before = __atomic_load_n(a->most, __ATOMIC_RELAXED);
    while (most > before &&
           !__atomic_compare_exchange_n(a->most, &before, most, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static void fixed_add(int64_t *sum, float *most, const float *x, double scale, size_t n)
{
    uint32_t bits;
    memcpy(&bits, most, sizeof(bits));
    const struct adding a = {sum, x, scale, &bits};
    thread_pool_range(n, UNIT, 4, add_range, &a);
    memcpy(most, &bits, sizeof(bits));
}

struct joining {
    int64_t       *to;
    const int64_t *from;
};

static void join_range(const void *arg, size_t from, size_t to)
{
    const struct joining *j = arg;
    for (size_t i = from; i < to; i++)
        j->to[i] = fixed_plus(j->to[i], j->from[i]);
}

static void fixed_join(int64_t *to, const int64_t *from, size_t n)
{
    const struct joining j = {to, from};
    thread_pool_range(n, UNIT, 4, join_range, &j);
}

struct result {
    float         *y;
    const int64_t *sum;
    double         unit;
};

static void result_range(const void *arg, size_t from, size_t to)
{
    const struct result *r = arg;
    for (size_t i = from; i < to; i++)
        r->y[i] = fixed_back(r->sum[i], r->unit);
}

static void fixed_result(float *y, const int64_t *sum, double unit, size_t n)
{
    const struct result r = {y, sum, unit};
    thread_pool_range(n, UNIT, 4, result_range, &r);
}

struct squaring {
    const float *x;
    double       scale;
    int64_t     *total;
};

static void square_range(const void *arg, size_t from, size_t to)
{
    const struct squaring *a = arg;
    int64_t all = 0;
    for (size_t i = from; i < to; i += FIXED_GROUP) {
        double group = 0;
        size_t end = i + FIXED_GROUP < to ? i + FIXED_GROUP : to;
        for (size_t k = i; k < end; k++)
            group += (double)a->x[k] * (double)a->x[k];
        all += llrint(group * a->scale);
    }
    __atomic_fetch_add(a->total, all, __ATOMIC_RELAXED);
}

static void fixed_squares(int64_t *total, const float *x, double scale, size_t n)
{
    const struct squaring a = {x, scale, total};
    thread_pool_range(n, UNIT, 4, square_range, &a);
}

void KERN_FILL(fixed)(struct kern_ops *ops)
{
    ops->fixed_add = fixed_add;
    ops->fixed_join = fixed_join;
    ops->fixed_result = fixed_result;
    ops->fixed_squares = fixed_squares;
}
