/* SPDX-License-Identifier: Apache-2.0 */
/* rope.cu - elementwise operations of Next-DiT: rotary positions, gates, SwiGLU, the mean of a caption */
#include "kernels/device.cuh"

/* Pairs of channels, in place; a warp per row, so that a lane divides once. V: numbers of an access, two or one. */
template <typename T, int V>
__global__ void rope_kernel(T *x, int ld, const float *real, const float *imag, float sign, struct kern_heads s)
{
    const int half = s.dim / 2, pairs = s.heads * half, lane = (int)threadIdx.x % WARP, far = WARP % half;
    const size_t row = warp_row(), at = row % s.tokens * half;
    if (row >= (size_t)s.batch * s.tokens)
        return;
    T *to = x + row * ld;
    for (int p = lane, k = lane % half; p < pairs; p += WARP) {
        float a[2], y[2];
        for (int i = 0; i < 2; i += V)
            load<V>(a + i, to + 2 * p + i);
        const float re = real[at + k], im = imag[at + k] * sign;
        y[0] = a[0] * re - a[1] * im;
        y[1] = a[0] * im + a[1] * re;
        for (int i = 0; i < 2; i += V)
            store<V>(to + 2 * p + i, y + i);
        k += far;
        k -= k >= half ? half : 0;
    }
}

/* A warp per head of a row. */
template <typename T, int V>
__global__ void head_gate_kernel(T *y, const T *a, const T *c, const float *gate, unsigned units, int heads, int dim)
{
    const unsigned unit = (unsigned)warp_row();
    if (unit >= units)
        return;
    const float g = tanhf(gate[unit % heads]);
    const size_t at = (size_t)unit * dim;
    lane_packs<V, 0>(dim, [&](int, int i) {
        float x[V], of[V];
        load<V>(x, a + at + i);
        load<V>(of, c + at + i);
        for (int k = 0; k < V; k++)
            x[k] += g * of[k];
        store<V>(y + at + i, x);
    });
}

template <typename T, int V>
__global__ void head_gate_back_kernel(T *dc, const T *dy, const float *gate, unsigned units, int heads, int dim)
{
    const unsigned unit = (unsigned)warp_row();
    if (unit >= units)
        return;
    const float g = tanhf(gate[unit % heads]);
    const size_t at = (size_t)unit * dim;
    lane_packs<V, 0>(dim, [&](int, int i) {
        float x[V];
        load<V>(x, dy + at + i);
        for (int k = 0; k < V; k++)
            x[k] *= g;
        store<V>(dc + at + i, x);
    });
}

enum { GATE_ROWS = 32 };

/* part: [chunks of GATE_ROWS rows][heads], a warp per head. */
template <typename T, int V>
__global__ void head_gate_parts(float *part, const T *dy, const T *c, const float *gate, int rows, int heads, int dim)
{
    const int first = (int)blockIdx.x * GATE_ROWS, last = first + GATE_ROWS < rows ? first + GATE_ROWS : rows;
    for (int h = (int)threadIdx.x / WARP; h < heads; h += BLOCK_ROWS) {
        const float t = tanhf(gate[h]);
        float sum = 0;
        for (int r = first; r < last; r++)
            lane_packs<V, 0>(dim, [&](int, int i) {
                float d[V], x[V];
                load<V>(d, dy + ((size_t)r * heads + h) * dim + i);
                load<V>(x, c + ((size_t)r * heads + h) * dim + i);
                for (int k = 0; k < V; k++)
                    sum += d[k] * x[k];
            });
        sum = warp_sum(sum);
        if (threadIdx.x % WARP == 0)
            part[(size_t)blockIdx.x * heads + h] = sum * (1.0f - t * t);
    }
}

/* A warp per row. */
template <typename T, int V> __global__ void swiglu_kernel(T *y, const T *u, int rows, int cols, int second)
{
    const size_t row = warp_row();
    if (row >= (size_t)rows)
        return;
    const T *a = u + row * (second + cols), *b = a + second;
    T *to = y + row * cols;
    lane_packs<V, 0>(cols, [&](int, int c) {
        float x[V], v[V];
        load<V>(x, a + c);
        load<V>(v, b + c);
        for (int k = 0; k < V; k++)
            x[k] *= sigmoid_for<T>(x[k]) * v[k];
        store<V>(to + c, x);
    });
}

/* du may be u */
template <typename T, int V>
__global__ void swiglu_back_kernel(T *du, const T *dy, const T *u, int rows, int cols, int second)
{
    const size_t row = warp_row(), at = row * (second + cols);
    if (row >= (size_t)rows)
        return;
    const T *from = dy + row * cols;
    lane_packs<V, 0>(cols, [&](int, int c) {
        float x[V], v[V], d[V];
        load<V>(x, u + at + c);
        load<V>(v, u + at + second + c);
        load<V>(d, from + c);
        for (int k = 0; k < V; k++) {
            const float s = sigmoid_for<T>(x[k]);
            v[k] *= d[k] * s * (1.0f + x[k] * (1.0f - s));
            d[k] *= x[k] * s;
        }
        store<V>(du + at + c, v);
        store<V>(du + at + second + c, d);
    });
    const float none = 0;
    for (int c = cols + (int)threadIdx.x % WARP; c < second; c += WARP)
        store<1>(du + at + c, &none);
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
    for_kind(by_four({(size_t)ld}, x), [&](auto t, auto v) {
        typedef decltype(t) T;
        launch("rope", rope_kernel<T, (decltype(v)::value > 1 ? 2 : 1)>,
               grid_of_rows((size_t)s.batch * (size_t)s.tokens), dim3(BLOCK), 0, (T *)x, ld, real, imag,
               back ? -1.0f : 1.0f, s);
    });
}

static void cuda_head_gate(void *y, const void *a, const void *c, const float *gate, int rows, int heads, int dim)
{
    const unsigned units = (unsigned)rows * (unsigned)heads;
    for_kind(by_four({(size_t)dim}, y, a, c), [&](auto t, auto v) {
        typedef decltype(t) T;
        launch("head_gate", head_gate_kernel<T, decltype(v)::value>, grid_of_rows(units), dim3(BLOCK), 0, (T *)y,
               (const T *)a, (const T *)c, gate, units, heads, dim);
    });
}

static void cuda_head_gate_back(void *dc, float *dgate, const void *dy, const void *c, const float *gate, int rows,
                                int heads, int dim)
{
    const unsigned units = (unsigned)rows * (unsigned)heads, chunks = tiles((size_t)rows, GATE_ROWS);
    const struct column_to to = {dgate, 0, 1, 1, 0};
    float *part = (float *)device_scratch(SCRATCH_PARTS, sizeof(float) * chunks * (size_t)heads);
    if (!part)
        return;
    for_kind(by_four({(size_t)dim}, dc, dy, c), [&](auto t, auto v) {
        typedef decltype(t) T;
        if (dgate) { /* first: dc may be c */
            launch("head_gate_back", head_gate_parts<T, decltype(v)::value>, dim3(chunks), dim3(BLOCK), 0, part,
                   (const T *)dy, (const T *)c, gate, rows, heads, dim);
            launch("head_gate_back", column_finish, grid_for((size_t)heads), dim3(BLOCK), 0, to, part, 0, 1, 1, heads,
                   (int)chunks);
        }
        launch("head_gate_back", head_gate_back_kernel<T, decltype(v)::value>, grid_of_rows(units), dim3(BLOCK), 0,
               (T *)dc, (const T *)dy, gate, units, heads, dim);
    });
}

static void cuda_swiglu(void *y, const void *u, int rows, int cols, int second)
{
    for_kind(by_four({(size_t)cols, (size_t)second}, y, u), [&](auto t, auto v) {
        typedef decltype(t) T;
        launch("swiglu", swiglu_kernel<T, decltype(v)::value>, grid_of_rows((size_t)rows), dim3(BLOCK), 0, (T *)y,
               (const T *)u, rows, cols, second);
    });
}

static void cuda_swiglu_back(void *du, const void *dy, const void *u, int rows, int cols, int second)
{
    for_kind(by_four({(size_t)cols, (size_t)second}, du, dy, u), [&](auto t, auto v) {
        typedef decltype(t) T;
        launch("swiglu_back", swiglu_back_kernel<T, decltype(v)::value>, grid_of_rows((size_t)rows), dim3(BLOCK), 0,
               (T *)du, (const T *)dy, (const T *)u, rows, cols, second);
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
