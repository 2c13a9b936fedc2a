/* SPDX-License-Identifier: Apache-2.0 */
/* adamw_ref.c - AdamW and the moving average of weights, one pass over memory each */
#include <math.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/table.h"
#include "kernels/team.h"

enum { LINE = 1024 };

struct adamw_args {
    float            *p, *m, *v;
    const float      *g;
    struct kern_adamw c;
};

static void adamw_range(const void *arg, size_t from, size_t to)
{
    const struct adamw_args *a = arg;
    const struct kern_adamw c = a->c;
    float *p = a->p, *m = a->m, *v = a->v;
    const float *g = a->g;
#pragma omp simd
    for (size_t i = from; i < to; i++) {
        float grad = g[i] * c.clip;
        float m1 = m[i] * c.beta1 + grad * c.rest1;
        float v1 = v[i] * c.beta2 + grad * grad * c.rest2;
        m[i] = m1;
        v[i] = v1;
        p[i] = p[i] * c.decay - c.step * (m1 / (sqrtf(v1) * c.root + c.eps));
    }
}

static void adamw(float *p, void *also, float *m, float *v, const float *g, struct kern_adamw c,
                  size_t n)
{
    const struct adamw_args a = {p, m, v, g, c};
    team_range(n, LINE, 4, adamw_range, &a);
    if (also != p)
        memcpy(also, p, n * sizeof(*p));
}

struct ema_args {
    float       *avg;
    const float *p;
    float        rate, rest;
};

static void ema_range(const void *arg, size_t from, size_t to)
{
    const struct ema_args *a = arg;
    float *avg = a->avg;
    const float *p = a->p, rate = a->rate, rest = a->rest;
#pragma omp simd
    for (size_t i = from; i < to; i++)
        avg[i] = avg[i] * rate + p[i] * rest;
}

static void ema(float *avg, const float *p, float rate, float rest, size_t n)
{
    const struct ema_args a = {avg, p, rate, rest};
    team_range(n, LINE, 2, ema_range, &a);
}

void KERN_FILL(adamw)(struct kern_ops *ops)
{
    ops->adamw = adamw;
    ops->ema = ema;
}
