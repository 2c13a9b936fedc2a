/* SPDX-License-Identifier: Apache-2.0 */
/* rng.cu - normal numbers from a stream per sample, bit for bit as on the CPU; see rng_formula.h */
#include "kernels/device.cuh"
#include "kernels/rng_formula.h"

/* A block of Philox is a pair of numbers; the first and the last pair of a row may lack one. */
__global__ void draw_normal_kernel(float *y, const struct rng *stream, uint64_t first, size_t n)
{
    const struct rng r = stream[blockIdx.y];
    const uint64_t from = first / 2, end = first + n;
    float *row = y + (size_t)blockIdx.y * n;
    for EACH(k, (size_t)((end + 1) / 2 - from)) {
        uint32_t word[4];
        rng_philox(&r, (uint32_t)(from + k), word);
        const uint64_t i = 2 * (from + k);
        if (i >= first)
            row[i - first] = (float)rng_box_muller(word[0], word[1]);
        if (i + 1 < end)
            row[i + 1 - first] = (float)rng_box_muller(word[2], word[3]);
    }
}

static void cuda_draw_normal(float *y, const struct rng *stream, uint64_t first, int batch, size_t n)
{
    const size_t pairs = (size_t)((first + n + 1) / 2 - first / 2);
    launch("draw_normal", draw_normal_kernel, dim3(grid_for(pairs).x, (unsigned)batch), dim3(BLOCK), 0, y, stream,
           first, n);
}

static void fill_rng(struct kern_ops *ops)
{
    ops->draw_normal = cuda_draw_normal;
}
