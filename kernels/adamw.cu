/* SPDX-License-Identifier: Apache-2.0 */
/* adamw.cu - AdamW and the moving average of weights, one pass over memory each */
#include "kernels/device.cuh"

/* `also` is NULL where the weights are their own narrow copy. */
template <typename T>
__global__ void adamw_kernel(float *p, T *also, float *m, float *v, const float *g,
                             struct kern_adamw c, size_t n)
{
    for EACH(i, n) {
        const float grad = g[i] * c.clip;
        const float m1 = m[i] * c.beta1 + grad * c.rest1;
        const float v1 = v[i] * c.beta2 + grad * grad * c.rest2;
        m[i] = m1;
        v[i] = v1;
        const float p1 = p[i] * c.decay - c.step * (m1 / (sqrtf(v1) * c.root + c.eps));
        p[i] = p1;
        if (also)
            also[i] = slim<T>(p1);
    }
}

__global__ void ema_kernel(float *avg, const float *p, float rate, float rest, size_t n)
{
    for EACH(i, n)
        avg[i] = avg[i] * rate + p[i] * rest;
}

static void cuda_adamw(float *p, void *also, float *m, float *v, const float *g,
                       struct kern_adamw c, size_t n)
{
    for_kind(false, [&](auto t, auto) {
        typedef decltype(t) T;
        launch("adamw", adamw_kernel<T>, grid_for(n), dim3(BLOCK), 0, p,
               also == p ? (T *)NULL : (T *)also, m, v, g, c, n);
    });
}

static void cuda_ema(float *avg, const float *p, float rate, float rest, size_t n)
{
    launch("ema", ema_kernel, grid_for(n), dim3(BLOCK), 0, avg, p, rate, rest, n);
}

static void fill_adamw(struct kern_ops *ops)
{
    ops->adamw = cuda_adamw;
    ops->ema = cuda_ema;
}
