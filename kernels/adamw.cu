/* SPDX-License-Identifier: Apache-2.0 */
/* adamw.cu - AdamW and the moving average of weights, one pass over memory each */
#include "kernels/device.cuh"

__global__ void adamw_kernel(float *p, float *m, float *v, const float *g, struct kern_adamw c,
                             size_t n)
{
    for EACH(i, n) {
        const float grad = g[i] * c.clip;
        const float m1 = m[i] * c.beta1 + grad * c.rest1;
        const float v1 = v[i] * c.beta2 + grad * grad * c.rest2;
        m[i] = m1;
        v[i] = v1;
        p[i] = p[i] * c.decay - c.step * (m1 / (sqrtf(v1) * c.root + c.eps));
    }
}

__global__ void ema_kernel(float *avg, const float *p, float rate, float rest, size_t n)
{
    for EACH(i, n)
        avg[i] = avg[i] * rate + p[i] * rest;
}

static void cuda_adamw(float *p, float *m, float *v, const float *g, struct kern_adamw c, size_t n)
{
    launch("adamw", adamw_kernel, grid_for(n), dim3(BLOCK), 0, p, m, v, g, c, n);
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
