/* SPDX-License-Identifier: Apache-2.0 */
/* reduce_ref.c - sums whose order depends only on the length
 *
 * Sums of squares: the array is cut into at most 1024 chunks, each summed in sixteen double
 * lanes; the chunks are added in order.  Any number of threads gives the same bits.
 */
#include "kernels/isa_table.h"
#include "kernels/kernels.h"
#include "kernels/simd.h"
#include "kernels/thread_pool.h"
#include "kernels/tile.h"

enum { CHUNKS = 1024, CHUNK_MIN = 4096 };

enum { QUARTERS = LANES / 4 };

typedef double v4d __attribute__((vector_size(32)));
typedef float v4_any __attribute__((vector_size(16), aligned(4), may_alias));

/* Four sums of four lanes: gcc converts a wider vector number by number. */
static double chunk_squares(const float *x, size_t n)
{
    v4d sum[QUARTERS] = {{0}};
    double rest = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
#pragma GCC unroll 4
        for (int q = 0; q < QUARTERS; q++) {
            const v4d a = __builtin_convertvector(*(const v4_any *)(x + i + 4 * q), v4d);
            sum[q] += a * a;
        }
    for (; i < n; i++)
        rest += (double)x[i] * (double)x[i];
    sum[0] += sum[2];
    sum[1] += sum[3];
    for (int l = 0; l < LANES / 2; l++)
        rest += sum[l / 4][l % 4];
    return rest;
}

struct sum_args {
    double      *part;
    const float *x;
    size_t       n, chunk;
};

static void sum_chunks(const void *arg, size_t from, size_t to)
{
    const struct sum_args *a = arg;
    for (size_t i = from; i < to; i++) {
        const size_t at = i * a->chunk, left = a->n - at;
        a->part[i] = chunk_squares(a->x + at, left < a->chunk ? left : a->chunk);
    }
}

static double sum_squares(const float *x, size_t n)
{
    double part[CHUNKS], total = 0;
    size_t chunk = (n + CHUNKS - 1) / CHUNKS;
    chunk = chunk < CHUNK_MIN ? CHUNK_MIN : (chunk + LANES - 1) / LANES * LANES;
    const struct sum_args a = {part, x, n, chunk};
    const size_t chunks = (n + chunk - 1) / chunk;
    thread_pool_range(chunks, 1, chunk, sum_chunks, &a);
    for (size_t i = 0; i < chunks; i++)
        total += part[i];
    return total;
}

struct pool_args {
    float       *y;
    const float *x;
    const int   *first;
    int          most, cols;
    size_t       groups;
};

/* Item i is a sample and a group of columns. */
static void pool_groups(const void *arg, size_t from, size_t to)
{
    const struct pool_args *k = arg;
    const size_t cols = (size_t)k->cols;
    for (size_t i = from; i < to; i++) {
        const int b = (int)(i / k->groups), c = (int)(i % k->groups) * LANES;
        const int begin = text_first(k->first, k->most, b);
        const int end = text_first(k->first, k->most, b + 1);
        v16 sum = {0};
        for (int r = begin; r < end; r++)
            sum += simd_load_at(k->x + (size_t)r * cols, c, k->cols);
        simd_store_at(k->y + (size_t)b * cols, c, k->cols, sum / (float)(end - begin));
    }
}

static void pool(float *y, const float *x, const int *first, int most, int batch, int cols)
{
    const struct pool_args k = {y, x, first, most, cols, (size_t)(cols + LANES - 1) / LANES};
    thread_pool_range((size_t)batch * k.groups, 1, (size_t)most * LANES, pool_groups, &k);
}

void KERN_FILL(reduce)(struct kern_ops *ops)
{
    ops->pool = pool;
    ops->sum_squares = sum_squares;
}
