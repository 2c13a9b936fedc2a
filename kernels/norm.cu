/* SPDX-License-Identifier: Apache-2.0 */
/* norm.cu - RMS norm, and layer norm with weights: a warp per row, and sums per column */
#include "kernels/device.cuh"

template <typename T, int V, int N>
__global__ void __launch_bounds__(BLOCK, 2) rms_norm_kernel(T *y, int ldy, float *rstd, const T *x, int ldx,
                                                            const float *w, size_t rows, int cols, float eps)
{
    const size_t row = warp_row();
    if (row >= rows)
        return;
    const T *in = x + row * ldx;
    pack<T, V> kept[N > 0 ? N : 1];
    float squares = 0;
    lane_packs<V, N>(cols, [&](int k, int c) {
        float a[V];
        kept[k] = pack_of<V>(in + c);
        unpack<V>(a, kept[k]);
        for (int i = 0; i < V; i++)
            squares += a[i] * a[i];
    });
    const float s = 1.0f / sqrtf(warp_sum(squares) / (float)cols + eps);
    if (threadIdx.x % WARP == 0)
        rstd[row] = s;
    lane_packs<V, N>(cols, [&](int k, int c) {
        float a[V], by[V];
        unpack<V>(a, N > 0 ? kept[k] : pack_of<V>(in + c));
        load<V>(by, w + c);
        for (int i = 0; i < V; i++)
            a[i] *= s * by[i];
        store<V>(y + row * ldy + c, a);
    });
}

/* dx = (g - n mean(g n)) rstd, g = dy w, n = x rstd; dx may be dy */
template <typename T, int V>
__global__ void rms_norm_back_kernel(T *dx, int lddx, const T *dy, int lddy, const T *x, int ldx,
                                     const float *rstd, const float *w, size_t rows, int cols)
{
    const size_t row = warp_row();
    if (row >= rows)
        return;
    const float s = rstd[row];
    float sum = 0;
    lane_packs<V, 0>(cols, [&](int, int c) {
        float g[V], n[V], by[V];
        load<V>(g, dy + row * lddy + c);
        load<V>(n, x + row * ldx + c);
        load<V>(by, w + c);
        for (int i = 0; i < V; i++)
            sum += g[i] * by[i] * (n[i] * s);
    });
    const float mean = warp_sum(sum) / (float)cols;
    lane_packs<V, 0>(cols, [&](int, int c) {
        float g[V], n[V], by[V];
        load<V>(g, dy + row * lddy + c);
        load<V>(n, x + row * ldx + c);
        load<V>(by, w + c);
        for (int i = 0; i < V; i++)
            g[i] = (g[i] * by[i] - n[i] * s * mean) * s;
        store<V>(dx + row * lddx + c, g);
    });
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
    for_rows(fours, cols, [&](auto t, auto v, auto n) {
        typedef decltype(t) T;
        launch("rms_norm", rms_norm_kernel<T, decltype(v)::value, decltype(n)::value>, grid_of_rows((size_t)rows),
               dim3(BLOCK), 0, (T *)y, ldy, rstd, (const T *)x, ldx, w, (size_t)rows, cols, eps);
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
        if (dw)
            column_sums("rms_norm_back", f, &to, 1, rows, cols); /* first: dx may be dy */
        launch("rms_norm_back", rms_norm_back_kernel<T, decltype(v)::value>,
               grid_of_rows((size_t)rows), dim3(BLOCK), 0, (T *)dx, lddx, (const T *)dy, lddy, (const T *)x, ldx, rstd,
               w, (size_t)rows, cols);
    });
}

/* --- layer norm ------------------------------------------------------------------------------ */

template <typename T, int V, int N>
__global__ void __launch_bounds__(BLOCK, 2) layer_norm_kernel(T *y, int ldy, float *stats, const T *x, int ldx,
                                                              const float *w, const float *b, size_t rows, int cols,
                                                              float eps)
{
    const size_t row = warp_row();
    if (row >= rows)
        return;
    const T *in = x + row * ldx;
    pack<T, V> kept[N > 0 ? N : 1];
    float sum = 0, squares = 0;
    lane_packs<V, N>(cols, [&](int k, int c) {
        float a[V];
        kept[k] = pack_of<V>(in + c);
        unpack<V>(a, kept[k]);
        for (int i = 0; i < V; i++)
            sum += a[i];
    });
    const float mean = warp_sum(sum) / (float)cols;
    lane_packs<V, N>(cols, [&](int k, int c) {
        float a[V];
        unpack<V>(a, N > 0 ? kept[k] : pack_of<V>(in + c));
        for (int i = 0; i < V; i++)
            squares += (a[i] - mean) * (a[i] - mean);
    });
    const float rstd = 1.0f / sqrtf(warp_sum(squares) / (float)cols + eps);
    if (threadIdx.x % WARP == 0) {
        stats[2 * row] = mean;
        stats[2 * row + 1] = rstd;
    }
    lane_packs<V, N>(cols, [&](int k, int c) {
        float a[V], by[V], and_b[V];
        unpack<V>(a, N > 0 ? kept[k] : pack_of<V>(in + c));
        load<V>(by, w + c);
        load<V>(and_b, b + c);
        for (int i = 0; i < V; i++)
            a[i] = (a[i] - mean) * rstd * by[i] + and_b[i];
        store<V>(y + row * ldy + c, a);
    });
}

/* dx = (g - mean(g) - n mean(g n)) rstd, g = dy w, n = LN(x); dx may be dy */
template <typename T, int V>
__global__ void layer_norm_back_kernel(T *dx, int lddx, const T *dy, int lddy, const T *x, int ldx, const float *stats,
                                       const float *w, size_t rows, int cols)
{
    const size_t row = warp_row();
    if (row >= rows)
        return;
    const float mean = stats[2 * row], rstd = stats[2 * row + 1];
    float sum_g = 0, sum_gn = 0;
    lane_packs<V, 0>(cols, [&](int, int c) {
        float g[V], n[V], by[V];
        load<V>(g, dy + row * lddy + c);
        load<V>(n, x + row * ldx + c);
        load<V>(by, w + c);
        for (int i = 0; i < V; i++) {
            sum_g += g[i] * by[i];
            sum_gn += g[i] * by[i] * ((n[i] - mean) * rstd);
        }
    });
    const float mean_g = warp_sum(sum_g) / (float)cols, mean_gn = warp_sum(sum_gn) / (float)cols;
    lane_packs<V, 0>(cols, [&](int, int c) {
        float g[V], n[V], by[V];
        load<V>(g, dy + row * lddy + c);
        load<V>(n, x + row * ldx + c);
        load<V>(by, w + c);
        for (int i = 0; i < V; i++)
            g[i] = (g[i] * by[i] - mean_g - (n[i] - mean) * rstd * mean_gn) * rstd;
        store<V>(dx + row * lddx + c, g);
    });
}

template <typename T> struct layer_columns {
    enum { SUMS = 2 };
    const T     *dy, *x;
    const float *stats;
    int          lddy, ldx;
    __device__ void get(float *out, size_t row, int col) const
    {
        const float d = widen(dy[row * lddy + col]);
        out[0] = d * ((widen(x[row * ldx + col]) - stats[2 * row]) * stats[2 * row + 1]);
        out[1] = d;
    }
};

static void cuda_layer_norm(void *y, int ldy, float *stats, const void *x, int ldx, const float *w, const float *b,
                            int rows, int cols, float eps)
{
    for_rows(by_four({(size_t)ldy, (size_t)ldx, (size_t)cols}, y, x, (const void *)w, (const void *)b), cols,
             [&](auto t, auto v, auto n) {
        typedef decltype(t) T;
        launch("layer_norm", layer_norm_kernel<T, decltype(v)::value, decltype(n)::value>, grid_of_rows((size_t)rows),
               dim3(BLOCK), 0, (T *)y, ldy, stats, (const T *)x, ldx, w, b, (size_t)rows, cols, eps);
    });
}

static void cuda_layer_norm_back(void *dx, int lddx, float *dw, float *db, const void *dy, int lddy, const void *x,
                                 int ldx, const float *stats, const float *w, int rows, int cols)
{
    const struct column_to to[] = {{dw, 0, 1, 1, 0}, {db, 0, 1, 1, 0}};
    for_kind(by_four({(size_t)lddx, (size_t)lddy, (size_t)ldx, (size_t)cols}, dx, dy, x, (const void *)w),
             [&](auto t, auto v) {
        typedef decltype(t) T;
        const struct layer_columns<T> f = {(const T *)dy, (const T *)x, stats, lddy, ldx};
        if (dw)
            column_sums("layer_norm_back", f, to, 1, rows, cols); /* first: dx may be dy */
        launch("layer_norm_back", layer_norm_back_kernel<T, decltype(v)::value>,
               grid_of_rows((size_t)rows), dim3(BLOCK), 0, (T *)dx, lddx, (const T *)dy, lddy, (const T *)x, ldx, stats,
               w, (size_t)rows, cols);
    });
}

static void fill_norm(struct kern_ops *ops)
{
    ops->layer_norm = cuda_layer_norm;
    ops->layer_norm_back = cuda_layer_norm_back;
    ops->rms_norm = cuda_rms_norm;
    ops->rms_norm_back = cuda_rms_norm_back;
}
