/* SPDX-License-Identifier: Apache-2.0 */
/* loss_ref.c - rectified flow: the noised input, the loss and its gradient */
#include "kernels/isa_table.h"
#include "kernels/kernels.h"
#include "kernels/simd.h"
#include "kernels/thread_pool.h"

enum { BLOCK = 4096 };

struct flow_args {
    float       *y; /* x_t, or dout */
    double      *per_sample;
    const float *x0, *noise, *alpha, *sigma, *out;
    size_t       n;
    float        factor;
};

static void noise_samples(const void *arg, size_t from, size_t to)
{
    const struct flow_args *k = arg;
    for (size_t b = from; b < to; b++) {
        const size_t at = b * k->n;
        const float a = k->alpha[b], s = k->sigma[b];
        float *y = k->y + at;
        const float *x0 = k->x0 + at, *noise = k->noise + at;
#pragma omp simd
        for (size_t i = 0; i < k->n; i++)
            y[i] = a * x0[i] + s * noise[i];
    }
}

static void flow_noise(float *x_t, const float *x0, const float *noise, const float *alpha,
                       const float *sigma, int batch, size_t n)
{
    const struct flow_args k = {.y = x_t, .x0 = x0, .noise = noise, .alpha = alpha,
                                .sigma = sigma, .n = n};
    thread_pool_range((size_t)batch, 1, 2 * n, noise_samples, &k);
}

/* Squares are summed in float within a block, in double over blocks. */
static double loss_of(float *dout, const float *out, const float *x0, const float *noise, float factor, size_t n)
{
    double total = 0;
    for (size_t k = 0; k < n; k += BLOCK) {
        const size_t end = n - k < BLOCK ? n : k + BLOCK;
        v16 sum = {0};
        size_t i = k;
        for (; i + LANES <= end; i += LANES) {
            v16 e = simd_load(noise + i) - simd_load(x0 + i) - simd_load(out + i);
            simd_store(dout + i, e * factor);
            sum += e * e;
        }
        if (i < end) {
            const size_t r = end - i;
            v16 e = simd_load_n(noise + i, r) - simd_load_n(x0 + i, r) - simd_load_n(out + i, r);
            simd_store_n(dout + i, e * factor, r);
            sum += e * e;
        }
        total += (double)simd_sum(sum);
    }
    return total / (double)n;
}

static void loss_samples(const void *arg, size_t from, size_t to)
{
    const struct flow_args *k = arg;
    for (size_t b = from; b < to; b++) {
        const size_t at = b * k->n;
        k->per_sample[b] = loss_of(k->y + at, k->out + at, k->x0 + at, k->noise + at, k->factor, k->n);
    }
}

static void flow_loss(double *per_sample, float *dout, const float *out, const float *x0,
                      const float *noise, double weight, int batch, size_t n)
{
    const struct flow_args k = {
        .y = dout, .per_sample = per_sample, .x0 = x0, .noise = noise, .out = out, .n = n,
        .factor = (float)(-2.0 * weight / ((double)batch * (double)n)),
    };
    thread_pool_range((size_t)batch, 1, 3 * n, loss_samples, &k);
}

void KERN_FILL(loss)(struct kern_ops *ops)
{
    ops->flow_noise = flow_noise;
    ops->flow_loss = flow_loss;
}
