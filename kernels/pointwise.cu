/* SPDX-License-Identifier: Apache-2.0 */
/* pointwise.cu - elementwise operations: activations, sums, modulation */
#include "kernels/device.cuh"

__device__ static inline float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

/* The same by the GPU's fast exp and 1/x, a few units of the 22nd bit off, where the result becomes bf16. */
template <typename T> __device__ static inline float sigmoid_for(float x)
{
#ifndef CUDA_ON_CPU
    if constexpr (std::is_same<T, bf16>::value) {
        float e, y;
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(x * -1.4426950409f));
        asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(1.0f + e));
        return y;
    }
#endif
    return sigmoid(x);
}

__device__ static inline float silu_slope(float x)
{
    const float s = sigmoid(x);
    return s * (1.0f + x * (1.0f - s));
}

/* 0.5 (1 + tanh u) = sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3) */
__device__ static inline float gelu_gate(float x)
{
    return sigmoid(1.5957691216f * (x + 0.044715f * x * x * x));
}

template <typename T> __global__ void round_kernel(T *y, const float *x, size_t n)
{
    for EACH(i, n)
        y[i] = narrow<T>(x[i]);
}

template <typename T> __global__ void silu_kernel(T *y, const float *x, size_t n)
{
    for EACH(i, n)
        y[i] = narrow<T>(x[i] * sigmoid_for<T>(x[i]));
}

template <typename T> __global__ void silu_back_kernel(T *dx, const T *dy, const float *x, size_t n)
{
    for EACH(i, n)
        dx[i] = narrow<T>(widen(dy[i]) * silu_slope(x[i]));
}

template <typename T> __global__ void gelu_kernel(T *y, const T *x, size_t n)
{
    for EACH(i, n)
        y[i] = narrow<T>(widen(x[i]) * gelu_gate(widen(x[i])));
}

template <typename T> __global__ void gelu_back_kernel(T *dx, const T *dy, const T *x, size_t n)
{
    for EACH(i, n) {
        const float v = widen(x[i]), s = gelu_gate(v);
        const float slope = 1.5957691216f * (1.0f + 3.0f * 0.044715f * v * v);
        dx[i] = narrow<T>(widen(dy[i]) * (s + v * s * (1.0f - s) * slope));
    }
}

template <typename T> __global__ void add_kernel(float *y, const float *a, const T *b, size_t n)
{
    for EACH(i, n)
        y[i] = a[i] + widen(b[i]);
}

template <typename T, bool WHOLE>
__global__ void time_embed_kernel(T *emb, const float *t, const float *freqs, int batch, int half)
{
    for EACH(i, (size_t)batch * half) {
        const size_t b = i / half, k = i % half;
        const float angle = (WHOLE ? truncf(t[b]) : t[b]) * freqs[k];
        emb[b * 2 * half + k] = narrow<T>(cosf(angle));
        emb[b * 2 * half + half + k] = narrow<T>(sinf(angle));
    }
}

__global__ void mod_add_kernel(float *mod, const float *table, const float *t, int ldt, int row,
                               size_t n, int rows, int cols)
{
    for EACH(i, n) {
        const size_t c = i % cols, r = i / cols % rows, b = i / cols / rows;
        mod[i] = table[r * cols + c] + t[b * ldt + r * row + c];
    }
}

/* A thread owns a column of dt: all rows that share it, and all samples for dtable. */
__global__ void mod_add_back_kernel(float *dtable, float *dt, int ldt, int row, const float *dmod,
                                    int batch, int rows, int cols)
{
    for EACH(c, (size_t)cols)
        for (int b = 0; b < batch; b++)
            for (int r = 0; r < rows; r++) {
                const float d = dmod[((size_t)b * rows + r) * cols + c];
                if (dtable)
                    dtable[(size_t)r * cols + c] += d;
                dt[(size_t)b * ldt + (size_t)r * row + c] += d;
            }
}

template <typename T> __global__ void columns_kernel(T *y, const T *x, int ldx, size_t n, int cols)
{
    for EACH(i, n)
        y[i] = x[i / cols * ldx + i % cols];
}

template <typename T> __global__ void scale_kernel(T *y, const T *x, float by, size_t n)
{
    for EACH(i, n)
        y[i] = narrow<T>(by * widen(x[i]));
}

__global__ void widen_bf16_kernel(float *y, const bf16 *half, size_t n)
{
    for EACH(i, n)
        y[i] = widen(half[i]);
}

static void cuda_columns(void *y, const void *x, int ldx, int m, int n)
{
    const size_t all = (size_t)m * (size_t)n;
    for_kind(false, [&](auto t, auto) {
        typedef decltype(t) T;
        launch("columns", columns_kernel<T>, grid_for(all), dim3(BLOCK), 0, (T *)y, (const T *)x, ldx, all, n);
    });
}

static void cuda_scale(void *y, const void *x, float by, size_t n)
{
    for_kind(false, [&](auto t, auto) {
        typedef decltype(t) T;
        launch("scale", scale_kernel<T>, grid_for(n), dim3(BLOCK), 0, (T *)y, (const T *)x, by, n);
    });
}

static void cuda_widen_bf16(float *y, const void *half, size_t n)
{
    launch("widen_bf16", widen_bf16_kernel, grid_for(n), dim3(BLOCK), 0, y, (const bf16 *)half, n);
}

static void cuda_round(void *y, const float *x, size_t n)
{
    if (y == x)
        return;
    for_kind(false, [&](auto t, auto) {
        typedef decltype(t) T;
        launch("round", round_kernel<T>, grid_for(n), dim3(BLOCK), 0, (T *)y, x, n);
    });
}

static void cuda_silu(void *y, const float *x, size_t n)
{
    for_kind(false, [&](auto t, auto) {
        typedef decltype(t) T;
        launch("silu", silu_kernel<T>, grid_for(n), dim3(BLOCK), 0, (T *)y, x, n);
    });
}

static void cuda_silu_back(void *dx, const void *dy, const float *x, size_t n)
{
    for_kind(false, [&](auto t, auto) {
        typedef decltype(t) T;
        launch("silu_back", silu_back_kernel<T>, grid_for(n), dim3(BLOCK), 0, (T *)dx,
               (const T *)dy, x, n);
    });
}

static void cuda_gelu(void *y, const void *x, size_t n)
{
    for_kind(false, [&](auto t, auto) {
        typedef decltype(t) T;
        launch("gelu", gelu_kernel<T>, grid_for(n), dim3(BLOCK), 0, (T *)y, (const T *)x, n);
    });
}

static void cuda_gelu_back(void *dx, const void *dy, const void *x, size_t n)
{
    for_kind(false, [&](auto t, auto) {
        typedef decltype(t) T;
        launch("gelu_back", gelu_back_kernel<T>, grid_for(n), dim3(BLOCK), 0, (T *)dx,
               (const T *)dy, (const T *)x, n);
    });
}

static void cuda_add(float *y, const float *a, const void *b, size_t n)
{
    for_kind(false, [&](auto t, auto) {
        typedef decltype(t) T;
        launch("add", add_kernel<T>, grid_for(n), dim3(BLOCK), 0, y, a, (const T *)b, n);
    });
}

static void cuda_time_embed(void *emb, const float *t, const float *freqs, int batch, int half)
{
    for_kind(false, [&](auto kind, auto) {
        typedef decltype(kind) T;
        launch("time_embed", time_embed_kernel<T, true>, grid_for((size_t)batch * (size_t)half),
               dim3(BLOCK), 0, (T *)emb, t, freqs, batch, half);
    });
}

static void cuda_time_embed_exact(void *emb, const float *t, const float *freqs, int batch, int half)
{
    for_kind(false, [&](auto kind, auto) {
        typedef decltype(kind) T;
        launch("time_embed_exact", time_embed_kernel<T, false>, grid_for((size_t)batch * (size_t)half), dim3(BLOCK), 0,
               (T *)emb, t, freqs, batch, half);
    });
}

static void cuda_mod_add(float *mod, const float *table, const float *t, int ldt, int row,
                         int batch, int rows, int cols)
{
    const size_t n = (size_t)batch * (size_t)rows * (size_t)cols;
    launch("mod_add", mod_add_kernel, grid_for(n), dim3(BLOCK), 0, mod, table, t, ldt, row, n, rows,
           cols);
}

static void cuda_mod_add_back(float *dtable, float *dt, int ldt, int row, const float *dmod,
                              int batch, int rows, int cols)
{
    launch("mod_add_back", mod_add_back_kernel, grid_for((size_t)cols), dim3(BLOCK), 0, dtable, dt,
           ldt, row, dmod, batch, rows, cols);
}

static void fill_pointwise(struct kern_ops *ops)
{
    ops->round = cuda_round;
    ops->columns = cuda_columns;
    ops->scale = cuda_scale;
    ops->widen_bf16 = cuda_widen_bf16;
    ops->silu = cuda_silu;
    ops->silu_back = cuda_silu_back;
    ops->gelu = cuda_gelu;
    ops->gelu_back = cuda_gelu_back;
    ops->add = cuda_add;
    ops->time_embed = cuda_time_embed;
    ops->time_embed_exact = cuda_time_embed_exact;
    ops->mod_add = cuda_mod_add;
    ops->mod_add_back = cuda_mod_add_back;
}
