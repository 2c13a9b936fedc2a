/* SPDX-License-Identifier: Apache-2.0 */
/* adamw_ref.c - AdamW and the moving average of weights, one pass over memory each */
#include <math.h>
#include <string.h>

#include "kernels/isa_table.h"
#include "kernels/kernels.h"
#include "kernels/thread_pool.h"

enum { LINE = 1024 };

struct adamw_args {
    struct kern_adamw_move a;
    struct kern_adamw      c;
};

/* Input and output arrays may be the same. */
static void adamw_range(const void *arg, size_t from, size_t to)
{
    const struct adamw_args *k = arg;
    const struct kern_adamw c = k->c;
    float *p = k->a.p, *m = k->a.m, *v = k->a.v;
    const float *old_p = k->a.old_p, *old_m = k->a.old_m, *old_v = k->a.old_v, *g = k->a.g;
#pragma omp simd
    for (size_t i = from; i < to; i++) {
        float grad = g[i] * c.clip;
        float m1 = old_m[i] * c.beta1 + grad * c.rest1;
        float v1 = old_v[i] * c.beta2 + grad * grad * c.rest2;
        m[i] = m1;
        v[i] = v1;
        p[i] = old_p[i] * c.decay - c.step * (m1 / (sqrtf(v1) * c.root + c.eps));
    }
}

static void adamw_move(struct kern_adamw_move a, struct kern_adamw c, size_t n)
{
    const struct adamw_args args = {a, c};
    thread_pool_range(n, LINE, 4, adamw_range, &args);
}

static void adamw(float *p, void *also, float *m, float *v, const float *g, struct kern_adamw c, size_t n)
{
    adamw_move((struct kern_adamw_move){p, m, v, p, m, v, g}, c, n);
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
    thread_pool_range(n, LINE, 2, ema_range, &a);
}

void KERN_FILL(adamw)(struct kern_ops *ops)
{
    ops->adamw = adamw;
    ops->adamw_move = adamw_move;
    ops->ema = ema;
}
