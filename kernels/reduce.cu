/* SPDX-License-Identifier: Apache-2.0 */
/* reduce.cu - sums of squares whose order depends only on the length */
#include <math.h>

#include "kernels/device.cuh"

enum { SQUARE_BLOCKS = 1024 };

__global__ void squares_kernel(double *part, const float *x, size_t n)
{
    double sum = 0;
    for EACH(i, n)
        sum += (double)x[i] * (double)x[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        part[blockIdx.x] = sum;
}

/* One block: *total = scale * sum of part. */
__global__ void parts_kernel(double *total, const double *part, int parts, double scale)
{
    double sum = 0;
    for (int i = (int)threadIdx.x; i < parts; i += BLOCK)
        sum += part[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        *total = sum * scale;
}

/* A double on the device: scale * sum of squares; NULL: failure. */
static double *device_squares(const float *x, size_t n, double scale)
{
    const unsigned most = tiles(n, BLOCK);
    const unsigned blocks = most < 1 ? 1u : most > SQUARE_BLOCKS ? (unsigned)SQUARE_BLOCKS : most;
    double *at = (double *)device_scratch(SCRATCH_SCALARS, sizeof(double) * (SQUARE_BLOCKS + 8));
    if (!at)
        return NULL;
    launch("sum_squares", squares_kernel, dim3(blocks), dim3(BLOCK), 0, at + 8, x, n);
    launch("sum_squares", parts_kernel, dim3(1), dim3(BLOCK), 0, at, at + 8, (int)blocks, scale);
    return at;
}

static double cuda_sum_squares(const float *x, size_t n)
{
    double total = NAN;
    const double *at = device_squares(x, n, 1);
    if (at)
        device_download(&total, at, sizeof(total));
    return total;
}

static void fill_reduce(struct kern_ops *ops)
{
    ops->sum_squares = cuda_sum_squares;
}
