/* SPDX-License-Identifier: Apache-2.0 */
/* residual.cu - the residual stream in one pass: add, gate, norm, modulate; forward and backward
 *
 * Forward a warp owns a row, up to 2,304 columns of which stay in its registers. Backward a block owns some rows of a
 * sample: for eight at a time, each warp computes the means of one, then a thread goes through its columns of all
 * eight. gate(), norm_mod() and gate_norm() are one kernel with options, and so are their backward passes.
 */
#include "kernels/device.cuh"

enum { RESIDUAL_ROWS = 32, RESIDUAL_SUMS = 3 };

struct residual {
    float       *y;     /* x + gate * a; NULL: x itself */
    void        *also;  /* y narrow, or NULL */
    void        *h;     /* the norm, or NULL */
    float       *stats;
    const float *x, *gate, *shift, *scale;
    const void  *a;
    int          ldg, ldm, tokens, cols;
    size_t       rows;
    float        eps;
};

/* y of the columns from c on, also into memory. */
template <typename T, int V>
__device__ static inline void residual_take(float *x, const struct residual &r, size_t at, size_t b, int c)
{
    float a[V], g[V];
    load<V>(x, r.x + at + c);
    if (r.y) {
        load<V>(a, (const T *)r.a + at + c);
        if (r.gate)
            load<V>(g, r.gate + b * r.ldg + c);
        for (int i = 0; i < V; i++)
            x[i] += r.gate ? g[i] * a[i] : a[i];
        store<V>(r.y + at + c, x);
    }
    if (r.also)
        store<V>((T *)r.also + at + c, x);
}

template <typename T, int V, int N> __global__ void __launch_bounds__(BLOCK, 2) residual_kernel(struct residual r)
{
    const size_t row = warp_row(), at = row * r.cols, b = row / r.tokens;
    if (row >= r.rows)
        return;
    const float *in = r.y ? r.y : r.x;
    float x[N > 0 ? N : 1][V], sum = 0, squares = 0;
    lane_packs<V, N>(r.cols, [&](int k, int c) {
        residual_take<T, V>(x[k], r, at, b, c);
        for (int i = 0; i < V; i++)
            sum += x[k][i];
    });
    if (!r.h)
        return;
    const float mean = warp_sum(sum) / (float)r.cols;
    lane_packs<V, N>(r.cols, [&](int k, int c) {
        if (N == 0)
            load<V>(x[k], in + at + c);
        for (int i = 0; i < V; i++)
            squares += (x[k][i] - mean) * (x[k][i] - mean);
    });
    const float rstd = 1.0f / sqrtf(warp_sum(squares) / (float)r.cols + r.eps);
    if (threadIdx.x % WARP == 0) {
        r.stats[2 * row] = mean;
        r.stats[2 * row + 1] = rstd;
    }
    lane_packs<V, N>(r.cols, [&](int k, int c) {
        float shift[V], scale[V];
        if (N == 0)
            load<V>(x[k], in + at + c);
        load<V>(shift, r.shift + b * r.ldm + c);
        load<V>(scale, r.scale + b * r.ldm + c);
        for (int i = 0; i < V; i++)
            x[k][i] = (x[k][i] - mean) * rstd * (1.0f + scale[i]) + shift[i];
        store<V>((T *)r.h + at + c, x[k]);
    });
}

static void residual_forward(const char *name, struct residual r, int batch)
{
    const bool fours = by_four({(size_t)r.cols, (size_t)r.ldg, (size_t)r.ldm}, r.y, r.also, r.h,
                               r.x, r.gate, r.shift, r.scale, r.a);
    r.rows = (size_t)batch * (size_t)r.tokens;
    for_rows(fours, r.cols, [&](auto t, auto v, auto n) {
        launch(name, residual_kernel<decltype(t), decltype(v)::value, decltype(n)::value>, grid_of_rows(r.rows),
               dim3(BLOCK), 0, r);
    });
}

/* dx is the gradient of y on entry; on return it includes the gradient through h. */
struct residual_back {
    float       *dx;
    void        *da;    /* gate * dx, or with gate NULL dx; NULL: not wanted */
    const void  *dh, *a; /* dh NULL: no norm; a NULL: no gradient of the gate */
    const float *y, *stats, *scale, *gate;
    float       *part;  /* [blocks][RESIDUAL_SUMS][cols]: shift, scale, gate */
    int          ldg, ldm, tokens, cols, chunks;
};

/* Of a row: the mean and 1/deviation of y; g = dh (1 + scale), n = LN(y):  mean g and mean g n. */
struct residual_means {
    float mean, rstd, g, gn;
};

/* By a warp. */
template <typename T, int V>
__device__ static inline void residual_find(struct residual_means *to, const struct residual_back &r, size_t row,
                                            size_t b)
{
    const float m = r.stats[2 * row], rstd = r.stats[2 * row + 1];
    const size_t at = row * r.cols;
    float sum_g = 0, sum_gn = 0;
    lane_packs<V, 0>(r.cols, [&](int, int c) {
        float dh[V], y[V], scale[V];
        load<V>(dh, (const T *)r.dh + at + c);
        load<V>(y, r.y + at + c);
        load<V>(scale, r.scale + b * r.ldm + c);
        for (int i = 0; i < V; i++) {
            const float g = dh[i] * (1.0f + scale[i]);
            sum_g += g;
            sum_gn += g * ((y[i] - m) * rstd);
        }
    });
    sum_g = warp_sum(sum_g) / (float)r.cols;
    sum_gn = warp_sum(sum_gn) / (float)r.cols;
    if (threadIdx.x % WARP == 0)
        *to = {m, rstd, sum_g, sum_gn};
}

/* What a thread has of its V columns for all rows: factors, and sums of shift, scale and gate. */
template <int V> struct residual_column {
    float scale[V], gate[V], sums[RESIDUAL_SUMS][V];
};

/* Columns from number `at` on, of a row: dx and da, and their share in the sums. */
template <typename T, int V>
__device__ static inline void residual_step(struct residual_column<V> &k, const struct residual_back &r,
                                            const struct residual_means &mean, size_t at)
{
    float dx[V];
    load<V>(dx, r.dx + at);
    if (r.dh) {
        float dh[V], y[V];
        load<V>(dh, (const T *)r.dh + at);
        load<V>(y, r.y + at);
        for (int i = 0; i < V; i++) {
            const float n = (y[i] - mean.mean) * mean.rstd;
            dx[i] += mean.rstd * (dh[i] * (1.0f + k.scale[i]) - mean.g - n * mean.gn);
            k.sums[0][i] += dh[i];
            k.sums[1][i] += dh[i] * n;
        }
        store<V>(r.dx + at, dx);
    }
    if (r.a) {
        float a[V];
        load<V>(a, (const T *)r.a + at);
        for (int i = 0; i < V; i++)
            k.sums[2][i] += dx[i] * a[i];
    }
    for (int i = 0; i < V && r.gate; i++)
        dx[i] *= k.gate[i];
    if (r.da)
        store<V>((T *)r.da + at, dx);
}

/* Columns from c on of up to BLOCK_ROWS rows; sums: their place in the sums of all rows of the block. */
template <typename T, int V>
__device__ static inline void residual_columns(float *sums, const struct residual_back &r,
                                               const struct residual_means *means, size_t row, int rows, int c)
{
    const size_t b = row / r.tokens;
    struct residual_column<V> k = {};
    if (r.dh)
        load<V>(k.scale, r.scale + b * r.ldm + c);
    if (r.gate)
        load<V>(k.gate, r.gate + b * r.ldg + c);
    for (int j = 0; j < RESIDUAL_SUMS; j++)
        load<V>(k.sums[j], sums + (size_t)j * r.cols + c);
    for (int i = 0; i < rows; i++)
        residual_step<T, V>(k, r, means[i], (row + i) * r.cols + c);
    for (int j = 0; j < RESIDUAL_SUMS; j++)
        store<V>(sums + (size_t)j * r.cols + c, k.sums[j]);
}

template <typename T, int V> __global__ void residual_back_kernel(struct residual_back r)
{
    const int b = (int)blockIdx.x / r.chunks, t0 = (int)blockIdx.x % r.chunks * RESIDUAL_ROWS;
    const int t1 = t0 + RESIDUAL_ROWS < r.tokens ? t0 + RESIDUAL_ROWS : r.tokens, warp = (int)threadIdx.x / WARP;
    float *sums = r.part + (size_t)blockIdx.x * RESIDUAL_SUMS * r.cols; /* a column is one thread's throughout */
    __shared__ struct residual_means means[BLOCK_ROWS];
    for (int k = 0; k < RESIDUAL_SUMS; k++)
        for (int c = (int)threadIdx.x * V; c < r.cols; c += BLOCK * V) {
            const float none[V] = {0};
            store<V>(sums + (size_t)k * r.cols + c, none);
        }
    for (int t = t0; t < t1; t += BLOCK_ROWS) {
        const size_t row = (size_t)b * r.tokens + t;
        const int rows = t1 - t < BLOCK_ROWS ? t1 - t : BLOCK_ROWS;
        __syncthreads(); /* means of the rows before may still be read */
        if (r.dh && warp < rows)
            residual_find<T, V>(&means[warp], r, row + warp, (size_t)b);
        __syncthreads();
        for (int c = (int)threadIdx.x * V; c < r.cols; c += BLOCK * V)
            residual_columns<T, V>(sums, r, means, row, rows, c);
    }
}

/* to[k]: output for the sums of shift, scale and gate, [batch] rows `ld` apart; NULL:
 * not wanted. */
static void residual_backward(const char *name, struct residual_back r, int batch,
                              float *const to[RESIDUAL_SUMS])
{
    const size_t cols = (size_t)r.cols, bytes = sizeof(float) * RESIDUAL_SUMS * cols;
    const bool fours = by_four({cols, (size_t)r.ldg, (size_t)r.ldm}, r.dx, r.da, r.dh, r.a, r.y,
                               r.scale, r.gate);
    r.chunks = (int)tiles((size_t)r.tokens, RESIDUAL_ROWS);
    const unsigned blocks = (unsigned)(batch * r.chunks);
    r.part = (float *)device_scratch(SCRATCH_PARTS, blocks * bytes);
    if (!r.part)
        return;
    for_kind(fours, [&](auto t, auto v) {
        launch(name, residual_back_kernel<decltype(t), decltype(v)::value>, dim3(blocks),
               dim3(BLOCK), 0, r);
    });
    for (int k = 0; k < RESIDUAL_SUMS; k++)
        if (to[k]) {
            const struct column_to c = {to[k], k < 2 ? r.ldm : r.ldg, 0, 1, 0};
            launch(name, column_finish, grid_for((size_t)batch * cols), dim3(BLOCK), 0, c, r.part, k,
                   RESIDUAL_SUMS, batch, r.cols, r.chunks);
        }
}

static void cuda_gate(float *y, void *also, const float *x, const float *gate, int ldg,
                      const void *a, int batch, int tokens, int cols)
{
    struct residual r = {};
    r.y = y, r.also = also == y ? NULL : also, r.x = x, r.gate = gate, r.a = a;
    r.ldg = ldg, r.tokens = tokens, r.cols = cols;
    residual_forward("gate", r, batch);
}

static void cuda_norm_mod(void *h, float *stats, const float *x, const float *shift,
                          const float *scale, int ldm, int batch, int tokens, int cols, float eps)
{
    struct residual r = {};
    r.h = h, r.stats = stats, r.x = x, r.shift = shift, r.scale = scale;
    r.ldm = ldm, r.tokens = tokens, r.cols = cols, r.eps = eps;
    residual_forward("norm_mod", r, batch);
}

static void cuda_gate_norm(float *y, void *h, float *stats, const float *x, const float *gate,
                           int ldg, const void *a, const float *shift, const float *scale, int ldm,
                           int batch, int tokens, int cols, float eps)
{
    struct residual r = {};
    r.y = y, r.h = h, r.stats = stats, r.x = x, r.gate = gate, r.a = a, r.shift = shift;
    r.scale = scale, r.ldg = ldg, r.ldm = ldm, r.tokens = tokens, r.cols = cols, r.eps = eps;
    residual_forward("gate_norm", r, batch);
}

static void cuda_gate_back(void *da, float *dgate, const float *dy, const float *gate, int ldg,
                           const void *a, int batch, int tokens, int cols)
{
    struct residual_back r = {};
    float *const to[RESIDUAL_SUMS] = {NULL, NULL, dgate};
    r.dx = (float *)(uintptr_t)dy; /* without a norm it is only read */
    r.da = da, r.a = a, r.gate = gate, r.ldg = ldg, r.tokens = tokens, r.cols = cols;
    residual_backward("gate_back", r, batch, to);
}

static void cuda_norm_mod_back(float *dx, float *dshift, float *dscale, const void *dh,
                               const float *x, const float *stats, const float *scale, int ldm,
                               int batch, int tokens, int cols)
{
    struct residual_back r = {};
    float *const to[RESIDUAL_SUMS] = {dshift, dscale, NULL};
    r.dx = dx, r.dh = dh, r.y = x, r.stats = stats, r.scale = scale;
    r.ldm = ldm, r.tokens = tokens, r.cols = cols;
    residual_backward("norm_mod_back", r, batch, to);
}

static void cuda_gate_norm_back(float *dx, void *da, float *dgate, float *dshift, float *dscale,
                                const void *dh, const float *y, const float *stats,
                                const float *scale, int ldm, const float *gate, int ldg,
                                const void *a, int batch, int tokens, int cols)
{
    struct residual_back r = {};
    float *const to[RESIDUAL_SUMS] = {dshift, dscale, gate ? dgate : NULL};
    r.dx = dx, r.da = gate || da != dx ? da : NULL, r.dh = dh, r.a = gate ? a : NULL;
    r.y = y, r.stats = stats, r.scale = scale, r.gate = gate;
    r.ldg = ldg, r.ldm = ldm, r.tokens = tokens, r.cols = cols;
    residual_backward("gate_norm_back", r, batch, to);
}

static void fill_residual(struct kern_ops *ops)
{
    ops->gate = cuda_gate;
    ops->gate_back = cuda_gate_back;
    ops->norm_mod = cuda_norm_mod;
    ops->norm_mod_back = cuda_norm_mod_back;
    ops->gate_norm = cuda_gate_norm;
    ops->gate_norm_back = cuda_gate_norm_back;
}
