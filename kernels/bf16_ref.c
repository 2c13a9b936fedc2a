/* SPDX-License-Identifier: Apache-2.0 */
/* bf16_ref.c - products with frozen weights of bf16, which stay where they are
 *
 * A part has some of the weights' rows; it makes floats of a few of them, which stay in the cache, and multiplies.
 * Parts do not depend on the number of threads, so neither do the bits.
 */
#include <cblas.h>

#include "kernels/isa_table.h"
#include "kernels/kernels.h"
#include "kernels/simd.h"
#include "kernels/thread_pool.h"

enum { SPLIT_UNIT = 16 };

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
    int                  m, k, n;
};

static void bf16_part(const void *arg, int part)
{
    const struct bf16_args *a = arg;
    const size_t k = (size_t)a->k, most = (size_t)kern_bf16_rows(a->k);
    float *rows = a->work + (size_t)part * most * k;
    size_t from, to;
    thread_pool_slice(&from, &to, (size_t)a->n, SPLIT_UNIT, part, KERN_BF16_PARTS);
    for (size_t at = from, n; at < to; at += n) {
        n = to - at < most ? to - at : most;
        widen(rows, a->w + 2 * at * k, n * k);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, a->m, (int)n, a->k, 1.0f, a->x, a->k, rows, a->k, 0.0f,
                    a->y + at, a->n);
    }
}

static void linear_bf16(float *y, const float *x, const void *w, float *work, int m, int k, int n)
{
    const struct bf16_args a = {y, work, x, w, m, k, n};
    thread_pool_run(KERN_BF16_PARTS, bf16_part, &a);
}

void KERN_FILL(bf16)(struct kern_ops *ops)
{
    ops->linear_bf16 = linear_bf16;
}
