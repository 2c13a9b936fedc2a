/* SPDX-License-Identifier: Apache-2.0 */
/* norm.cu - RMS norm: a block per row, then sums per column */
#include "kernels/device.cuh"

template <typename T, int V>
__global__ void rms_norm_kernel(T *y, int ldy, float *rstd, const T *x, int ldx, const float *w,
                                int cols, float eps)
{
    const size_t row = blockIdx.x;
    const T *in = x + row * ldx;
    float squares = 0;
    for (int c = (int)threadIdx.x * V; c < cols; c += BLOCK * V) {
        float a[V];
        load<V>(a, in + c);
        for (int i = 0; i < V; i++)
            squares += a[i] * a[i];
    }
    const float s = 1.0f / sqrtf(block_sum(squares) / (float)cols + eps);
    if (threadIdx.x == 0)
        rstd[row] = s;
    for (int c = (int)threadIdx.x * V; c < cols; c += BLOCK * V) {
        float a[V], by[V];
        load<V>(a, in + c);
        load<V>(by, w + c);
        for (int i = 0; i < V; i++)
            a[i] *= s * by[i];
        store<V>(y + row * ldy + c, a);
    }
}

/* dx = (g - n mean(g n)) rstd, g = dy w, n = x rstd; dx may be dy */
template <typename T, int V>
__global__ void rms_norm_back_kernel(T *dx, int lddx, const T *dy, int lddy, const T *x, int ldx,
                                     const float *rstd, const float *w, int cols)
{
    const size_t row = blockIdx.x;
    const float s = rstd[row];
    float sum = 0, g[V], n[V], by[V];
    for (int c = (int)threadIdx.x * V; c < cols; c += BLOCK * V) {
        load<V>(g, dy + row * lddy + c);
        load<V>(n, x + row * ldx + c);
        load<V>(by, w + c);
        for (int i = 0; i < V; i++)
            sum += g[i] * by[i] * (n[i] * s);
    }
    const float mean = block_sum(sum) / (float)cols;
    for (int c = (int)threadIdx.x * V; c < cols; c += BLOCK * V) {
        load<V>(g, dy + row * lddy + c);
        load<V>(n, x + row * ldx + c);
        load<V>(by, w + c);
        for (int i = 0; i < V; i++)
            g[i] = (g[i] * by[i] - n[i] * s * mean) * s;
        store<V>(dx + row * lddx + c, g);
    }
}

template <typename T> struct rms_columns {
    enum { SUMS = 1 };
    const T     *dy, *x;
    const float *rstd;
    int          lddy, ldx;
    __device__ void get(float *out, size_t row, int col) const
    {
        out[0] = widen(dy[row * lddy + col]) * (widen(x[row * ldx + col]) * rstd[row]);
    }
};

static void cuda_rms_norm(void *y, int ldy, float *rstd, const void *x, int ldx, const float *w,
                          int rows, int cols, float eps)
{
    const bool fours = by_four({(size_t)ldy, (size_t)ldx, (size_t)cols}, y, x, w);
    for_kind(fours, [&](auto t, auto v) {
        typedef decltype(t) T;
        launch("rms_norm", rms_norm_kernel<T, decltype(v)::value>, dim3((unsigned)rows),
               dim3(BLOCK), 0, (T *)y, ldy, rstd, (const T *)x, ldx, w, cols, eps);
    });
}

static void cuda_rms_norm_back(void *dx, int lddx, float *dw, const void *dy, int lddy,
                               const void *x, int ldx, const float *rstd, const float *w, int rows,
                               int cols)
{
    const bool fours = by_four({(size_t)lddx, (size_t)lddy, (size_t)ldx, (size_t)cols}, dx, dy, x,
                               w);
    const struct column_to to = {dw, 0, 1, 1, 0};
    for_kind(fours, [&](auto t, auto v) {
        typedef decltype(t) T;
        const struct rms_columns<T> f = {(const T *)dy, (const T *)x, rstd, lddy, ldx};
        column_sums("rms_norm_back", f, &to, 1, rows, cols); /* first: dx may be dy */
        launch("rms_norm_back", rms_norm_back_kernel<T, decltype(v)::value>, dim3((unsigned)rows),
               dim3(BLOCK), 0, (T *)dx, lddx, (const T *)dy, lddy, (const T *)x, ldx, rstd, w,
               cols);
    });
}

static void fill_norm(struct kern_ops *ops)
{
    ops->rms_norm = cuda_rms_norm;
    ops->rms_norm_back = cuda_rms_norm_back;
}
