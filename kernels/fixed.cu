/* SPDX-License-Identifier: Apache-2.0 */
/* fixed.cu - fixed-point sums on the GPU (fixed.h): a partial result per block, then one fold */
#include "kernels/device.cuh"
#include "kernels/fixed.h"

enum { FIXED_BLOCKS = SQUARE_BLOCKS }; /* capacity of SCRATCH_SCALARS */

__device__ static inline uint32_t fixed_larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* The maximum over a block, in every thread. */
__device__ static inline uint32_t fixed_block_most(uint32_t x)
{
    __shared__ uint32_t part[BLOCK / WARP];
    for (int half = WARP / 2; half > 0; half /= 2)
        x = fixed_larger(x, __shfl_xor_sync(0xffffffffu, x, half));
    if (threadIdx.x % WARP == 0)
        part[threadIdx.x / WARP] = x;
    __syncthreads();
    for (unsigned w = 0; w < BLOCK / WARP; w++)
        x = fixed_larger(x, part[w]);
    return x;
}

__global__ void fixed_add_kernel(int64_t *sum, uint32_t *part, const float *x, double scale,
                                 size_t n)
{
    uint32_t most = 0;
    for EACH(i, n) {
        sum[i] = fixed_plus(sum[i], fixed_of((double)x[i] * scale));
        most = fixed_larger(most, fixed_size(x[i]));
    }
    most = fixed_block_most(most);
    if (threadIdx.x == 0)
        part[blockIdx.x] = most;
}

__global__ void fixed_most_kernel(float *to, const uint32_t *part, int parts)
{
    uint32_t most = fixed_size(*to);
    for (int i = (int)threadIdx.x; i < parts; i += BLOCK)
        most = fixed_larger(most, part[i]);
    most = fixed_block_most(most);
    if (threadIdx.x == 0)
        memcpy(to, &most, sizeof(most));
}

__global__ void fixed_join_kernel(int64_t *to, const int64_t *from, size_t n)
{
    for EACH(i, n)
        to[i] = fixed_plus(to[i], from[i]);
}

__global__ void fixed_result_kernel(float *y, const int64_t *sum, double unit, size_t n)
{
    for EACH(i, n)
        y[i] = fixed_back(sum[i], unit);
}

/* The sum over a group, in order, V numbers an access where the group is whole. */
template <int V> __device__ static inline double fixed_group(const float *x, size_t have)
{
    double sum = 0;
    if (have >= FIXED_GROUP) {
        float a[FIXED_GROUP];
        for (int k = 0; k < FIXED_GROUP; k += V)
            load<V>(a + k, x + k);
        for (int k = 0; k < FIXED_GROUP; k++)
            sum += (double)a[k] * (double)a[k];
        return sum;
    }
    for (size_t k = 0; k < have; k++)
        sum += (double)x[k] * (double)x[k];
    return sum;
}

/* A thread per group. */
template <int V> __global__ void fixed_squares_kernel(int64_t *part, const float *x, double scale, size_t n)
{
    int64_t all = 0;
    for EACH(g, (n + FIXED_GROUP - 1) / FIXED_GROUP)
        all += llrint(fixed_group<V>(x + g * FIXED_GROUP, n - g * FIXED_GROUP) * scale);
    all = block_sum(all);
    if (threadIdx.x == 0)
        part[blockIdx.x] = all;
}

__global__ void fixed_total_kernel(int64_t *total, const int64_t *part, int parts)
{
    int64_t all = 0;
    for (int i = (int)threadIdx.x; i < parts; i += BLOCK)
        all += part[i];
    all = block_sum(all);
    if (threadIdx.x == 0)
        *total += all;
}

/* 8 bytes per block; NULL: failure. */
static void *fixed_parts(size_t n, unsigned *blocks)
{
    const unsigned most = tiles(n, BLOCK);
    *blocks = most < 1 ? 1u : most > FIXED_BLOCKS ? (unsigned)FIXED_BLOCKS : most;
    return device_scratch(SCRATCH_SCALARS, sizeof(int64_t) * (SQUARE_BLOCKS + 8));
}

static void cuda_fixed_add(int64_t *sum, float *most, const float *x, double scale, size_t n)
{
    unsigned blocks;
    uint32_t *part = (uint32_t *)fixed_parts(n, &blocks);
    if (!part)
        return;
    launch("fixed_add", fixed_add_kernel, dim3(blocks), dim3(BLOCK), 0, sum, part, x, scale, n);
    launch("fixed_add", fixed_most_kernel, dim3(1), dim3(BLOCK), 0, most, part, (int)blocks);
}

static void cuda_fixed_join(int64_t *to, const int64_t *from, size_t n)
{
    launch("fixed_join", fixed_join_kernel, grid_for(n), dim3(BLOCK), 0, to, from, n);
}

static void cuda_fixed_result(float *y, const int64_t *sum, double unit, size_t n)
{
    launch("fixed_result", fixed_result_kernel, grid_for(n), dim3(BLOCK), 0, y, sum, unit, n);
}

static void cuda_fixed_squares(int64_t *total, const float *x, double scale, size_t n)
{
    unsigned blocks;
    int64_t *part = (int64_t *)fixed_parts((n + FIXED_GROUP - 1) / FIXED_GROUP, &blocks);
    if (!part)
        return;
    launch("fixed_squares", by_four({}, x) ? fixed_squares_kernel<4> : fixed_squares_kernel<1>, dim3(blocks),
           dim3(BLOCK), 0, part, x, scale, n);
    launch("fixed_squares", fixed_total_kernel, dim3(1), dim3(BLOCK), 0, total, part, (int)blocks);
}

static void fill_fixed(struct kern_ops *ops)
{
    ops->fixed_add = cuda_fixed_add;
    ops->fixed_join = cuda_fixed_join;
    ops->fixed_result = cuda_fixed_result;
    ops->fixed_squares = cuda_fixed_squares;
}
