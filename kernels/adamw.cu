/* SPDX-License-Identifier: Apache-2.0 */
/* adamw.cu - AdamW and the moving average of weights, one pass over memory each */
#include "kernels/device.cuh"

/* n packs of V numbers. `also` is NULL if the weights are their own narrow copy. */
template <typename T, int V>
__global__ void adamw_kernel(float *p, T *also, float *m, float *v, const float *g,
                             struct kern_adamw c, size_t n)
{
    for EACH(i, n) {
        float p1[V], m1[V], v1[V], grad[V];
        load<V>(p1, p + i * V);
        load<V>(m1, m + i * V);
        load<V>(v1, v + i * V);
        load<V>(grad, g + i * V);
        for (int k = 0; k < V; k++) {
            const float d = grad[k] * c.clip;
            m1[k] = m1[k] * c.beta1 + d * c.rest1;
            v1[k] = v1[k] * c.beta2 + d * d * c.rest2;
            p1[k] = p1[k] * c.decay - c.step * (m1[k] / (sqrtf(v1[k]) * c.root + c.eps));
        }
        store<V>(p + i * V, p1);
        store<V>(m + i * V, m1);
        store<V>(v + i * V, v1);
        if (also)
            store<V>(also + i * V, p1);
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
    const size_t packs = by_four({}, p, (const float *)also, m, v, g) ? n / 4 : 0, done = 4 * packs;
    for_kind(false, [&](auto t, auto) {
        typedef decltype(t) T;
        T *const narrow = also == p ? NULL : (T *)also;
        if (packs > 0)
            launch("adamw", adamw_kernel<T, 4>, grid_for(packs), dim3(BLOCK), 0, p, narrow, m, v,
                   g, c, packs);
        if (n > done) /* the tail, or the whole array if it is not aligned for packs */
            launch("adamw", adamw_kernel<T, 1>, grid_for(n - done), dim3(BLOCK), 0, p + done,
                   narrow ? narrow + done : NULL, m + done, v + done, g + done, c, n - done);
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
