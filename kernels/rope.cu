/* SPDX-License-Identifier: Apache-2.0 */
/* rope.cu - elementwise operations of Next-DiT: rotary positions, gates, SwiGLU, the mean of a caption */
#include "kernels/device.cuh"

/* A pair of channels, in place. */
template <typename T>
__global__ void rope_kernel(T *x, int ld, const float *real, const float *imag, float sign, struct kern_heads s)
{
    const size_t half = (size_t)s.dim / 2, pairs = (size_t)s.heads * half;
    for EACH(i, (size_t)s.batch * s.tokens * pairs) {
        const size_t row = i / pairs, p = i % pairs, at = row % s.tokens * half + p % half;
        T *to = x + row * ld + 2 * p;
        const float a = widen(to[0]), b = widen(to[1]), re = real[at], im = imag[at] * sign;
        to[0] = narrow<T>(a * re - b * im);
        to[1] = narrow<T>(a * im + b * re);
    }
}

template <typename T>
__global__ void head_gate_kernel(T *y, const T *a, const T *c, const float *gate, size_t n, int heads, int dim)
{
    for EACH(i, n)
        y[i] = narrow<T>(widen(a[i]) + tanhf(gate[i / dim % heads]) * widen(c[i]));
}

template <typename T>
__global__ void head_gate_back_kernel(T *dc, const T *dy, const float *gate, size_t n, int heads, int dim)
{
    for EACH(i, n)
        dc[i] = narrow<T>(tanhf(gate[i / dim % heads]) * widen(dy[i]));
}

/* A column is a head. */
template <typename T> struct head_gate_columns {
    enum { SUMS = 1 };
    const T     *dy, *c;
    const float *gate;
    int          heads, dim;
    __device__ void get(float *out, size_t row, int col) const
    {
        const size_t at = (row * heads + col) * dim;
        const float t = tanhf(gate[col]);
        float sum = 0;
        for (int i = 0; i < dim; i++)
            sum += widen(dy[at + i]) * widen(c[at + i]);
        out[0] = sum * (1.0f - t * t);
    }
};

template <typename T> __global__ void swiglu_kernel(T *y, const T *a, const T *b, size_t n)
{
    for EACH(i, n) {
        const float x = widen(a[i]);
        y[i] = narrow<T>(x * sigmoid(x) * widen(b[i]));
    }
}

/* da may be a, db may be b */
template <typename T>
__global__ void swiglu_back_kernel(T *da, T *db, const T *dy, const T *a, const T *b, size_t n)
{
    for EACH(i, n) {
        const float x = widen(a[i]), d = widen(dy[i]), v = widen(b[i]);
        da[i] = narrow<T>(d * v * silu_slope(x));
        db[i] = narrow<T>(d * x * sigmoid(x));
    }
}

__global__ void pool_kernel(float *y, const float *x, const int *first, int most, int batch, int cols)
{
    for EACH(i, (size_t)batch * cols) {
        const int b = (int)(i / cols), from = text_first(first, most, b), to = text_first(first, most, b + 1);
        float sum = 0;
        for (int r = from; r < to; r++)
            sum += x[(size_t)r * cols + i % cols];
        y[i] = sum / (float)(to - from);
    }
}

static void cuda_rope(void *x, int ld, const float *real, const float *imag, bool back, struct kern_heads s)
{
    const size_t n = (size_t)s.batch * (size_t)s.tokens * (size_t)(s.heads * s.dim) / 2;
    for_kind(false, [&](auto t, auto) {
        typedef decltype(t) T;
        launch("rope", rope_kernel<T>, grid_for(n), dim3(BLOCK), 0, (T *)x, ld, real, imag, back ? -1.0f : 1.0f, s);
    });
}

static void cuda_head_gate(void *y, const void *a, const void *c, const float *gate, int rows, int heads, int dim)
{
    const size_t n = (size_t)rows * (size_t)(heads * dim);
    for_kind(false, [&](auto t, auto) {
        typedef decltype(t) T;
        launch("head_gate", head_gate_kernel<T>, grid_for(n), dim3(BLOCK), 0, (T *)y, (const T *)a, (const T *)c, gate,
               n, heads, dim);
    });
}

static void cuda_head_gate_back(void *dc, float *dgate, const void *dy, const void *c, const float *gate, int rows,
                                int heads, int dim)
{
    const size_t n = (size_t)rows * (size_t)(heads * dim);
    const struct column_to to = {dgate, 0, 1, 1, 0};
    for_kind(false, [&](auto t, auto) {
        typedef decltype(t) T;
        const struct head_gate_columns<T> f = {(const T *)dy, (const T *)c, gate, heads, dim};
        if (dgate)
            column_sums("head_gate_back", f, &to, 1, rows, heads); /* first: dc may be c */
        launch("head_gate_back", head_gate_back_kernel<T>, grid_for(n), dim3(BLOCK), 0, (T *)dc, (const T *)dy, gate, n,
               heads, dim);
    });
}

static void cuda_swiglu(void *y, const void *a, const void *b, size_t n)
{
    for_kind(false, [&](auto t, auto) {
        typedef decltype(t) T;
        launch("swiglu", swiglu_kernel<T>, grid_for(n), dim3(BLOCK), 0, (T *)y, (const T *)a, (const T *)b, n);
    });
}

static void cuda_swiglu_back(void *da, void *db, const void *dy, const void *a, const void *b, size_t n)
{
    for_kind(false, [&](auto t, auto) {
        typedef decltype(t) T;
        launch("swiglu_back", swiglu_back_kernel<T>, grid_for(n), dim3(BLOCK), 0, (T *)da, (T *)db, (const T *)dy,
               (const T *)a, (const T *)b, n);
    });
}

static void cuda_pool(float *y, const float *x, const int *first, int most, int batch, int cols)
{
    launch("pool", pool_kernel, grid_for((size_t)batch * (size_t)cols), dim3(BLOCK), 0, y, x, first, most, batch, cols);
}

static void fill_rope(struct kern_ops *ops)
{
    ops->rope = cuda_rope;
    ops->head_gate = cuda_head_gate;
    ops->head_gate_back = cuda_head_gate_back;
    ops->swiglu = cuda_swiglu;
    ops->swiglu_back = cuda_swiglu_back;
    ops->pool = cuda_pool;
}
