/* SPDX-License-Identifier: Apache-2.0 */
/* online_softmax.h - the softmax of a row whose scores come block by block (Milakov and Gimelshein, 2018)
 *
 * A weighted sum kept beside it is multiplied by what online_softmax_meet() returns before the next block's terms are
 * added, and by 1 / sum at the end. For files that are compiled once per instruction set (isa_table.h).
 */
#ifndef KERNELS_ONLINE_SOFTMAX_H
#define KERNELS_ONLINE_SOFTMAX_H

#include <math.h>

#include "kernels/simd.h"

/* The largest score and the sum of exponentials of a row so far. */
struct online_softmax {
    float top, sum;
};

/* p[n] = exp(p - top), with the largest score updated by these; returns the factor for earlier sums. */
SIMD_FN float online_softmax_meet(struct online_softmax *row, float *p, int n)
{
    v16 tops = simd_all(row->top), sum = {0};
    for (int i = 0; i < n; i += LANES)
        tops = simd_max(tops, simd_first(n - i, simd_load_at(p, i, n), tops));
    const float top = simd_top(tops), shrink = expf(row->top - top);
    for (int i = 0; i < n; i += LANES) {
        const v16 e = simd_exp(simd_load_at(p, i, n) - top);
        simd_store_at(p, i, n, e);
        sum += simd_first(n - i, e, simd_all(0.0f));
    }
    row->sum = row->sum * shrink + simd_sum(sum);
    row->top = top;
    return shrink;
}

#endif
