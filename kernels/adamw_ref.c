/* SPDX-License-Identifier: Apache-2.0 */
/* adamw_ref.c - AdamW and the moving average of weights, one pass over memory each */
#include <math.h>

#include "kernels/kernels.h"
#include "kernels/table.h"

enum { BLOCK = 8192 };

static void adamw_block(float *p, float *m, float *v, const float *g, struct kern_adamw c,
                        size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        float grad = g[i] * c.clip;
        float m1 = m[i] * c.beta1 + grad * c.rest1;
        float v1 = v[i] * c.beta2 + grad * grad * c.rest2;
        m[i] = m1;
        v[i] = v1;
        p[i] = p[i] * c.decay - c.step * (m1 / (sqrtf(v1) * c.root + c.eps));
    }
}

static void adamw(float *p, float *m, float *v, const float *g, struct kern_adamw c, size_t n)
{
#pragma omp parallel for schedule(static) if (n > 2 * BLOCK)
    for (size_t k = 0; k < n; k += BLOCK)
        adamw_block(p + k, m + k, v + k, g + k, c, n - k < BLOCK ? n - k : BLOCK);
}

static void ema(float *avg, const float *p, float rate, float rest, size_t n)
{
#pragma omp parallel for simd schedule(static) if (n > 2 * BLOCK)
    for (size_t i = 0; i < n; i++)
        avg[i] = avg[i] * rate + p[i] * rest;
}

void KERN_FILL(adamw)(struct kern_ops *ops)
{
    ops->adamw = adamw;
    ops->ema = ema;
}
