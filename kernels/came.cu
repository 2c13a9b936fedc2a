/* SPDX-License-Identifier: Apache-2.0 */
/* came.cu - CAME; came_ref.c has the formulas
 *
 * Nothing is copied to the host: means and the limit of the update stay in
 * scalars on the device.
 */
#include "kernels/device.cuh"

/* row[i] moves toward the mean of (x * scale)^2 + eps along row i: a block per row. */
__global__ void came_rows_kernel(float *row, const float *x, float scale, float eps, float beta,
                                 float rest, int cols)
{
    const float *in = x + (size_t)blockIdx.x * cols;
    float sum = 0;
    for (int c = (int)threadIdx.x; c < cols; c += BLOCK)
        sum += in[c] * scale * (in[c] * scale);
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        row[blockIdx.x] = row[blockIdx.x] * beta + (sum / (float)cols + eps) * rest;
}

struct square_columns {
    enum { SUMS = 1 };
    const float *x;
    float        scale;
    int          cols;
    __device__ void get(float *out, size_t row, int col) const
    {
        const float a = x[row * cols + col] * scale;
        out[0] = a * a;
    }
};

/* One block: the mean of a row vector. */
__global__ void came_mean_kernel(double *mean, const float *row, int rows)
{
    double sum = 0;
    for (int i = (int)threadIdx.x; i < rows; i += BLOCK)
        sum += (double)row[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        *mean = sum / rows;
}

/* y = x * scale * rsqrt(row / mean) * rsqrt(col) */
__global__ void came_apply_kernel(float *y, const float *x, float scale, const float *row,
                                  const float *col, const double *mean, size_t n, int cols)
{
    const float m = (float)*mean;
    for EACH(i, n)
        y[i] = 1.0f / sqrtf(row[i / cols] / m) * (1.0f / sqrtf(col[i % cols])) * (x[i] * scale);
}

__global__ void came_plain_kernel(float *u, float *v, const float *g, struct kern_came c, size_t n)
{
    for EACH(i, n) {
        const float a = g[i] * c.clip;
        v[i] = v[i] * c.beta2 + (a * a + c.eps1) * c.rest2;
        u[i] = a * (1.0f / sqrtf(v[i]));
    }
}

/* Clips u by its mean square, moves m toward u, and replaces u by u - m. */
__global__ void came_momentum_kernel(float *u, float *m, const double *square, struct kern_came c,
                                     size_t n)
{
    const float rms = (float)sqrt(*square) / c.threshold;
    const float limit = rms > 1.0f ? 1.0f / rms : 1.0f;
    for EACH(i, n) {
        const float a = u[i] * limit;
        m[i] = m[i] * c.beta1 + a * c.rest1;
        u[i] = a - m[i];
    }
}

/* `also` is NULL if the weights are their own narrow copy. */
template <typename T>
__global__ void came_update_kernel(float *p, T *also, const float *step, float decay, float lr,
                                   size_t n)
{
    for EACH(i, n) {
        const float p1 = p[i] * decay - lr * step[i];
        p[i] = p1;
        if (also)
            also[i] = narrow<T>(p1);
    }
}

static void came_factor(float *row, float *col, const float *x, float scale, float eps, float beta,
                        float rest, int rows, int cols)
{
    const struct square_columns f = {x, scale, cols};
    const struct column_to to = {col, 0, beta, rest / (float)rows, eps * rest};
    launch("came", came_rows_kernel, dim3((unsigned)rows), dim3(BLOCK), 0, row, x, scale, eps,
           beta, rest, cols);
    column_sums("came", f, &to, 1, rows, cols);
}

static void came_apply(float *y, const float *x, float scale, const float *row, const float *col,
                       int rows, int cols)
{
    const size_t n = (size_t)rows * (size_t)cols;
    double *mean = (double *)device_scratch(SCRATCH_SCALARS, sizeof(double) * (SQUARE_BLOCKS + 8));
    if (!mean)
        return;
    launch("came", came_mean_kernel, dim3(1), dim3(BLOCK), 0, mean + 1, row, rows);
    launch("came", came_apply_kernel, grid_for(n), dim3(BLOCK), 0, y, x, scale, row, col, mean + 1,
           n, cols);
}

static void cuda_came(float *p, void *also, struct kern_came_state s, const float *g,
                      struct kern_came c, size_t n)
{
    const float *step = s.m;
    if (s.rows > 0) {
        came_factor(s.row, s.col, g, c.clip, c.eps1, c.beta2, c.rest2, s.rows, s.cols);
        came_apply(s.work, g, c.clip, s.row, s.col, s.rows, s.cols);
    } else {
        launch("came", came_plain_kernel, grid_for(n), dim3(BLOCK), 0, s.work, s.v, g, c, n);
    }
    const double *square = device_squares(s.work, n, 1.0 / (double)n);
    if (!square)
        return;
    launch("came", came_momentum_kernel, grid_for(n), dim3(BLOCK), 0, s.work, s.m, square, c, n);
    if (s.rows > 0) {
        came_factor(s.res_row, s.res_col, s.work, 1.0f, c.eps2, c.beta3, c.rest3, s.rows, s.cols);
        came_apply(s.work, s.m, 1.0f, s.res_row, s.res_col, s.rows, s.cols);
        step = s.work;
    }
    for_kind(false, [&](auto t, auto) {
        typedef decltype(t) T;
        launch("came", came_update_kernel<T>, grid_for(n), dim3(BLOCK), 0, p,
               also == p ? (T *)NULL : (T *)also, step, c.decay, c.lr, n);
    });
}

static void fill_came(struct kern_ops *ops)
{
    ops->came = cuda_came;
}
