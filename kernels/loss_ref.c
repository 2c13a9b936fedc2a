/* SPDX-License-Identifier: Apache-2.0 */
/* loss_ref.c - rectified flow: the noised input, the loss and its gradient */
#include "kernels/kernels.h"
#include "kernels/lane.h"
#include "kernels/table.h"

enum { BLOCK = 4096 };

static void flow_noise(float *x_t, const float *x0, const float *noise, const float *alpha,
                       const float *sigma, int batch, size_t n)
{
#pragma omp parallel for schedule(static) if ((size_t)batch * n > 4 * BLOCK)
    for (int b = 0; b < batch; b++) {
        const size_t at = (size_t)b * n;
        const float a = alpha[b], s = sigma[b];
#pragma omp simd
        for (size_t i = 0; i < n; i++)
            x_t[at + i] = a * x0[at + i] + s * noise[at + i];
    }
}

/* The squares of a block are summed in float, blocks in double. */
static double loss_of(float *dout, const float *out, const float *x0, const float *noise,
                      float factor, size_t n)
{
    double total = 0;
    for (size_t k = 0; k < n; k += BLOCK) {
        const size_t end = n - k < BLOCK ? n : k + BLOCK;
        v16 sum = {0};
        size_t i = k;
        for (; i + LANES <= end; i += LANES) {
            v16 e = lane_load(noise + i) - lane_load(x0 + i) - lane_load(out + i);
            lane_store(dout + i, e * factor);
            sum += e * e;
        }
        if (i < end) {
            const size_t r = end - i;
            v16 e = lane_load_n(noise + i, r) - lane_load_n(x0 + i, r) - lane_load_n(out + i, r);
            lane_store_n(dout + i, e * factor, r);
            sum += e * e;
        }
        total += (double)lane_sum(sum);
    }
    return total / (double)n;
}

static void flow_loss(double *per_sample, float *dout, const float *out, const float *x0,
                      const float *noise, double weight, int batch, size_t n)
{
    const float factor = (float)(-2.0 * weight / ((double)batch * (double)n));
#pragma omp parallel for schedule(static) if ((size_t)batch * n > 4 * BLOCK)
    for (int b = 0; b < batch; b++) {
        const size_t at = (size_t)b * n;
        per_sample[b] = loss_of(dout + at, out + at, x0 + at, noise + at, factor, n);
    }
}

void KERN_FILL(loss)(struct kern_ops *ops)
{
    ops->flow_noise = flow_noise;
    ops->flow_loss = flow_loss;
}
