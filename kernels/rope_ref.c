/* SPDX-License-Identifier: Apache-2.0 */
/* rope_ref.c - rotary position embedding, and the per-head gate of Next-DiT */
#include <math.h>

#include "kernels/isa_table.h"
#include "kernels/kernels.h"
#include "kernels/simd.h"
#include "kernels/thread_pool.h"

enum { SUM_ROWS = 32 };

struct rope_args {
    float            *x;
    const float      *real, *imag;
    float             sign; /* sign of the imaginary part: -1 is the conjugate */
    size_t            ld;
    struct kern_heads s;
};

static void rope_rows(const void *arg, size_t from, size_t to)
{
    const struct rope_args *k = arg;
    const size_t pairs = (size_t)k->s.dim / 2, heads = (size_t)k->s.heads;
    for (size_t r = from; r < to; r++) {
        const size_t n = r % (size_t)k->s.tokens;
        const float *real = k->real + n * pairs, *imag = k->imag + n * pairs;
        for (size_t h = 0; h < heads; h++) {
            float *x = k->x + r * k->ld + h * 2 * pairs;
#pragma omp simd
            for (size_t m = 0; m < pairs; m++) {
                const float a = x[2 * m], b = x[2 * m + 1], i = imag[m] * k->sign;
                x[2 * m] = a * real[m] - b * i;
                x[2 * m + 1] = a * i + b * real[m];
            }
        }
    }
}

static void rope(void *x, int ld, const float *real, const float *imag, bool back, struct kern_heads s)
{
    const struct rope_args k = {x, real, imag, back ? -1.0f : 1.0f, (size_t)ld, s};
    thread_pool_range((size_t)s.batch * (size_t)s.tokens, 1, 2 * (size_t)(s.heads * s.dim), rope_rows, &k);
}

struct gate_args {
    float       *y, *dgate; /* y, or dc */
    const float *a, *c, *gate;
    size_t       rows, heads;
    int          dim;
};

/* One head at a time: its gate is computed once. */
static void head_gate_rows(const void *arg, size_t from, size_t to)
{
    const struct gate_args *k = arg;
    const size_t dim = (size_t)k->dim;
    for (size_t h = 0; h < k->heads; h++) {
        const float t = tanhf(k->gate[h]);
        for (size_t r = from; r < to; r++) {
            const size_t at = (r * k->heads + h) * dim;
            for (int i = 0; i < k->dim; i += LANES)
                simd_store_at(k->y + at, i, k->dim, simd_load_at(k->a + at, i, k->dim) +
                                                        t * simd_load_at(k->c + at, i, k->dim));
        }
    }
}

static void head_gate(void *y, const void *a, const void *c, const float *gate, int rows, int heads, int dim)
{
    const struct gate_args k = {
        .y = y, .a = a, .c = c, .gate = gate, .rows = (size_t)rows, .heads = (size_t)heads,
        .dim = dim,
    };
    thread_pool_range(k.rows, 1, 2 * (size_t)(heads * dim), head_gate_rows, &k);
}

/* dc = t a, and the sum of a times the old c; a: dy */
static float head_back(const struct gate_args *k, size_t h, float t)
{
    v16 total = {0};
    for (size_t r0 = 0; r0 < k->rows; r0 += SUM_ROWS) {
        v16 part = {0};
        for (size_t r = r0; r < k->rows && r < r0 + SUM_ROWS; r++) {
            const size_t at = (r * k->heads + h) * (size_t)k->dim;
            for (int i = 0; i < k->dim; i += LANES) {
                const v16 dy = simd_load_at(k->a + at, i, k->dim);
                part += dy * simd_load_at(k->c + at, i, k->dim);
                simd_store_at(k->y + at, i, k->dim, t * dy);
            }
        }
        total += part;
    }
    return simd_sum(total);
}

/* Item i is a head. */
static void head_gate_back_heads(const void *arg, size_t from, size_t to)
{
    const struct gate_args *k = arg;
    for (size_t h = from; h < to; h++) {
        const float t = tanhf(k->gate[h]);
        k->dgate[h] += head_back(k, h, t) * (1.0f - t * t);
    }
}

static void head_gate_back(void *dc, float *dgate, const void *dy, const void *c,
                           const float *gate, int rows, int heads, int dim)
{
    const struct gate_args k = {
        .y = dc, .dgate = dgate, .a = dy, .c = c, .gate = gate, .rows = (size_t)rows,
        .heads = (size_t)heads, .dim = dim,
    };
    thread_pool_range(k.heads, 1, 3 * (size_t)(rows * dim), head_gate_back_heads, &k);
}

void KERN_FILL(rope)(struct kern_ops *ops)
{
    ops->rope = rope;
    ops->head_gate = head_gate;
    ops->head_gate_back = head_gate_back;
}
