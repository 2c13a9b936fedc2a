/* SPDX-License-Identifier: Apache-2.0 */
/* norm.cu - layer norm with modulation, and RMS norm: a block per row, then sums per column */
#include "kernels/device.cuh"

__global__ void norm_mod_kernel(float *h, float *stats, const float *x, const float *shift,
                                const float *scale, int ldm, int tokens, int cols, float eps)
{
    const size_t row = blockIdx.x, b = row / tokens * ldm;
    const float *in = x + row * cols;
    float sum = 0, squares = 0;
    for (int c = (int)threadIdx.x; c < cols; c += BLOCK)
        sum += in[c];
    const float mean = block_sum(sum) / (float)cols;
    for (int c = (int)threadIdx.x; c < cols; c += BLOCK) {
        const float d = in[c] - mean;
        squares += d * d;
    }
    const float rstd = 1.0f / sqrtf(block_sum(squares) / (float)cols + eps);
    if (threadIdx.x == 0) {
        stats[2 * row] = mean;
        stats[2 * row + 1] = rstd;
    }
    for (int c = (int)threadIdx.x; c < cols; c += BLOCK)
        h[row * cols + c] = (in[c] - mean) * rstd * (1.0f + scale[b + c]) + shift[b + c];
}

/* g = dh (1 + scale), n = LN(x):  dx += (g - mean(g) - n mean(g n)) / std */
__global__ void norm_mod_back_kernel(float *dx, const float *dh, const float *x,
                                     const float *stats, const float *scale, int ldm, int tokens,
                                     int cols)
{
    const size_t row = blockIdx.x, at = row * cols, b = row / tokens * ldm;
    const float mean = stats[2 * row], rstd = stats[2 * row + 1];
    float sum_g = 0, sum_gn = 0;
    for (int c = (int)threadIdx.x; c < cols; c += BLOCK) {
        const float g = dh[at + c] * (1.0f + scale[b + c]);
        sum_g += g;
        sum_gn += g * ((x[at + c] - mean) * rstd);
    }
    const float mean_g = block_sum(sum_g) / (float)cols;
    const float mean_gn = block_sum(sum_gn) / (float)cols;
    for (int c = (int)threadIdx.x; c < cols; c += BLOCK) {
        const float g = dh[at + c] * (1.0f + scale[b + c]);
        dx[at + c] += rstd * (g - mean_g - (x[at + c] - mean) * rstd * mean_gn);
    }
}

struct norm_columns {
    enum { SUMS = 2 };
    const float *dh, *x, *stats;
    int          cols;
    __device__ void get(float *out, size_t row, int col) const
    {
        const float d = dh[row * cols + col];
        out[0] = d;
        out[1] = d * ((x[row * cols + col] - stats[2 * row]) * stats[2 * row + 1]);
    }
};

__global__ void rms_norm_kernel(float *y, int ldy, float *rstd, const float *x, int ldx,
                                const float *w, int cols, float eps)
{
    const size_t row = blockIdx.x;
    const float *in = x + row * ldx;
    float squares = 0;
    for (int c = (int)threadIdx.x; c < cols; c += BLOCK)
        squares += in[c] * in[c];
    const float s = 1.0f / sqrtf(block_sum(squares) / (float)cols + eps);
    if (threadIdx.x == 0)
        rstd[row] = s;
    for (int c = (int)threadIdx.x; c < cols; c += BLOCK)
        y[row * ldy + c] = in[c] * s * w[c];
}

/* dx = (g - n mean(g n)) rstd, g = dy w, n = x rstd */
__global__ void rms_norm_back_kernel(float *dx, int lddx, const float *dy, int lddy,
                                     const float *x, int ldx, const float *rstd, const float *w,
                                     int cols)
{
    const size_t row = blockIdx.x;
    const float s = rstd[row];
    float sum = 0;
    for (int c = (int)threadIdx.x; c < cols; c += BLOCK)
        sum += dy[row * lddy + c] * w[c] * (x[row * ldx + c] * s);
    const float mean = block_sum(sum) / (float)cols;
    for (int c = (int)threadIdx.x; c < cols; c += BLOCK)
        dx[row * lddx + c] = (dy[row * lddy + c] * w[c] - x[row * ldx + c] * s * mean) * s;
}

struct rms_columns {
    enum { SUMS = 1 };
    const float *dy, *x, *rstd;
    int          lddy, ldx;
    __device__ void get(float *out, size_t row, int col) const
    {
        out[0] = dy[row * lddy + col] * (x[row * ldx + col] * rstd[row]);
    }
};

static void cuda_norm_mod(float *h, float *stats, const float *x, const float *shift,
                          const float *scale, int ldm, int batch, int tokens, int cols, float eps)
{
    launch("norm_mod", norm_mod_kernel, dim3((unsigned)(batch * tokens)), dim3(BLOCK), 0, h, stats,
           x, shift, scale, ldm, tokens, cols, eps);
}

static void cuda_norm_mod_back(float *dx, float *dshift, float *dscale, const float *dh,
                               const float *x, const float *stats, const float *scale, int ldm,
                               int batch, int tokens, int cols)
{
    const struct norm_columns f = {dh, x, stats, cols};
    const struct column_to to[] = {{dshift, ldm, 0, 1, 0}, {dscale, ldm, 0, 1, 0}};
    launch("norm_mod_back", norm_mod_back_kernel, dim3((unsigned)(batch * tokens)), dim3(BLOCK), 0,
           dx, dh, x, stats, scale, ldm, tokens, cols);
    column_sums("norm_mod_back", f, to, batch, tokens, cols);
}

static void cuda_rms_norm(float *y, int ldy, float *rstd, const float *x, int ldx, const float *w,
                          int rows, int cols, float eps)
{
    launch("rms_norm", rms_norm_kernel, dim3((unsigned)rows), dim3(BLOCK), 0, y, ldy, rstd, x, ldx,
           w, cols, eps);
}

static void cuda_rms_norm_back(float *dx, int lddx, float *dw, const float *dy, int lddy,
                               const float *x, int ldx, const float *rstd, const float *w,
                               int rows, int cols)
{
    const struct rms_columns f = {dy, x, rstd, lddy, ldx};
    const struct column_to to = {dw, 0, 1, 1, 0};
    column_sums("rms_norm_back", f, &to, 1, rows, cols); /* first: dx may be dy */
    launch("rms_norm_back", rms_norm_back_kernel, dim3((unsigned)rows), dim3(BLOCK), 0, dx, lddx,
           dy, lddy, x, ldx, rstd, w, cols);
}

static void fill_norm(struct kern_ops *ops)
{
    ops->norm_mod = cuda_norm_mod;
    ops->norm_mod_back = cuda_norm_mod_back;
    ops->rms_norm = cuda_rms_norm;
    ops->rms_norm_back = cuda_rms_norm_back;
}
