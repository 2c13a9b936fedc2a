/* SPDX-License-Identifier: Apache-2.0 */
/* bf16_ref.c - products with frozen bf16 weights, which stay where they are
 *
 * A thread converts a panel of the weights' rows to floats, in memory that it reuses for all its panels, and
 * multiplies: a weight is read once, and its floats come from the cache. Panels do not depend on the number of threads,
 * so neither do the bits.
 */
#include "kernels/gemm_product.h"
#include "kernels/isa_table.h"
#include "kernels/kernels.h"
#include "kernels/simd.h"
#include "kernels/thread_pool.h"

enum { SPLIT_UNIT = 16, FEW_ROWS = 128 };

typedef uint16_t u16_lanes __attribute__((vector_size(32)));
typedef uint32_t u32_lanes __attribute__((vector_size(64)));

/* A bf16 is the upper half of a float. */
static void widen(float *y, const unsigned char *w, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        u16_lanes half;
        memcpy(&half, w + 2 * i, sizeof(half));
        simd_store(y + i, (v16)(__builtin_convertvector(half, u32_lanes) << 16));
    }
    for (; i < n; i++) {
        uint16_t half;
        memcpy(&half, w + 2 * i, sizeof(half));
        const uint32_t bits = (uint32_t)half << 16;
        memcpy(y + i, &bits, sizeof(bits));
    }
}

struct bf16_args {
    float               *y, *work;
    const float         *x;
    const unsigned char *w;
    int                  m, k, n, parts;
};

/* Few rows of x: so few weights that their floats stay in the L2 cache. Many: so that x is not read too often, but at
 * least as many panels as threads. */
static size_t panel_rows(int m, int n)
{
    const int rows = (n / KERN_BF16_THREADS + SPLIT_UNIT - 1) / SPLIT_UNIT * SPLIT_UNIT;
    if (m <= FEW_ROWS || rows < 2 * SPLIT_UNIT)
        return 2 * SPLIT_UNIT;
    return rows > KERN_BF16_ROWS ? KERN_BF16_ROWS : (size_t)rows;
}

static void bf16_part(const void *arg, int part)
{
    const struct bf16_args *a = arg;
    const size_t k = (size_t)a->k, rows = panel_rows(a->m, a->n), end = (size_t)a->n;
    float *work = a->work + (size_t)part * KERN_BF16_ROWS * k;
    size_t from, to;
    thread_pool_slice(&from, &to, end, rows, part, a->parts);
    for (size_t at = from; at < to; at += rows) {
        const size_t n = to - at < rows ? to - at : rows;
        widen(work, a->w + 2 * at * k, n * k);
        gemm_multiply(&(struct gemm_product){
            .y = a->y + at, .a = a->x, .b = work, .ldy = end, .lda = k, .ldb = k, .rows = a->m, .cols = (int)n,
            .depth = a->k, .b_across = true,
        });
    }
}

static void linear_bf16(float *y, const float *x, const void *w, float *work, int m, int k, int n)
{
    const int threads = thread_pool_size(), parts = threads < KERN_BF16_THREADS ? threads : KERN_BF16_THREADS;
    const struct bf16_args a = {y, work, x, w, m, k, n, parts};
    thread_pool_run(parts, bf16_part, &a);
}

void KERN_FILL(bf16)(struct kern_ops *ops)
{
    ops->linear_bf16 = linear_bf16;
}
