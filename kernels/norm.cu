/* SPDX-License-Identifier: Apache-2.0 */
/* norm.cu - RMS norm, and layer norm with weights, alone or with rotary positions: a warp per row, sums per column */
#include <string.h>

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

/* --- layer norm, alone or with rotary positions ------------------------------------------------ */

/* Columns of a lane's pack, of V numbers an access: a pair of channels that turns (TURN) has one lane. */
template <int V, bool TURN> struct layer_pack {
    enum { W = TURN && V == 1 ? 2 : V };
};

template <int W, int V, typename T> __device__ static inline pack<T, W> pack_by(const T *from)
{
    pack<T, W> p;
    for (int i = 0; i < W; i += V)
        *reinterpret_cast<pack<T, V> *>(p.at + i) = pack_of<V>(from + i);
    return p;
}

template <int W, int V, typename T> __device__ static inline void load_by(float *to, const T *from)
{
    unpack<W>(to, pack_by<W, V>(from));
}

/* [BLOCK_ROWS][dim], see turn_take(); NULL without TURN: the launch has no such memory then. */
template <bool TURN> __device__ static inline float *layer_tables(void)
{
    if constexpr (TURN) {
        DYNAMIC_SHARED(float, tables);
        return tables;
    }
    return NULL;
}

/* Cosine and sine of each pair of channels of a head, for the token of a row, side by side in shared memory; by a
 * warp. What column c turns by begins at number c % dim. */
__device__ static inline void turn_take(float *table, const struct kern_rope &r, size_t row)
{
    const int half = r.heads.dim / 2;
    const size_t at = (size_t)((unsigned)row % (unsigned)r.heads.tokens) * half;
    for (int k = (int)threadIdx.x % WARP; k < half; k += WARP) {
        table[2 * k] = r.real[at + k];
        table[2 * k + 1] = r.imag[at + k];
    }
    __syncwarp();
}

/* sign -1: back */
template <int W> __device__ static inline void turn_pack(float *a, const float *table, float sign)
{
    float by[W];
    load<W>(by, table);
    for (int i = 0; i + 1 < W; i += 2) {
        const float x = a[i], re = by[i], im = by[i + 1] * sign;
        a[i] = x * re - a[i + 1] * im;
        a[i + 1] = x * im + a[i + 1] * re;
    }
}

/* c % dim of the packs of a lane, one after the other, without a division for each. */
template <int W> struct turn_walk {
    int at, far, dim;
    __device__ turn_walk(int size)
        : at((int)threadIdx.x % WARP * W % size), far(WARP * W % size), dim(size)
    {
    }
    __device__ int next(void)
    {
        const int now = at;
        at += far;
        at -= at >= dim ? dim : 0;
        return now;
    }
};

/* TURN: rows are turned before they are rounded; shared memory: `dim` floats per warp. */
template <typename T, int V, int N, bool TURN>
__global__ void __launch_bounds__(BLOCK, 2) layer_norm_kernel(T *y, int ldy, float *stats, const T *x, int ldx,
                                                              const float *w, const float *b, size_t rows, int cols,
                                                              float eps, struct kern_rope r)
{
    enum { W = layer_pack<V, TURN>::W };
    const size_t row = warp_row();
    if (row >= rows)
        return;
    const T *in = x + row * ldx;
    pack<T, W> kept[N > 0 ? N : 1];
    float sum = 0, squares = 0;
    lane_packs<W, N>(cols, [&](int k, int c) {
        float a[W];
        kept[k] = pack_by<W, V>(in + c);
        unpack<W>(a, kept[k]);
        for (int i = 0; i < W; i++)
            sum += a[i];
    });
    const float mean = warp_sum(sum) / (float)cols;
    lane_packs<W, N>(cols, [&](int k, int c) {
        float a[W];
        unpack<W>(a, N > 0 ? kept[k] : pack_by<W, V>(in + c));
        for (int i = 0; i < W; i++)
            squares += (a[i] - mean) * (a[i] - mean);
    });
    const float rstd = 1.0f / sqrtf(warp_sum(squares) / (float)cols + eps);
    if (threadIdx.x % WARP == 0) {
        stats[2 * row] = mean;
        stats[2 * row + 1] = rstd;
    }
    float *table = layer_tables<TURN>() + threadIdx.x / WARP * r.heads.dim;
    if constexpr (TURN)
        turn_take(table, r, row);
    turn_walk<W> turns(TURN ? r.heads.dim : 1);
    lane_packs<W, N>(cols, [&](int k, int c) {
        float a[W], by[W], and_b[W];
        unpack<W>(a, N > 0 ? kept[k] : pack_by<W, V>(in + c));
        load_by<W, V>(by, w + c);
        load_by<W, V>(and_b, b + c);
        for (int i = 0; i < W; i++)
            a[i] = (a[i] - mean) * rstd * by[i] + and_b[i];
        if constexpr (TURN)
            turn_pack<W>(a, table + turns.next(), 1.0f);
        for (int i = 0; i < W; i += V)
            store<V>(y + row * ldy + c + i, a + i);
    });
}

/* Backward a block owns some rows, as in residual.cu: of eight at a time each warp finds the means of one, then a
 * thread goes through its columns of all eight, which come from cache. */
enum { LAYER_SUMS = 2, LAYER_BLOCKS = 512, LAYER_ROWS = 64 };

struct layer_back {
    void            *dx; /* may be dy */
    const void      *dy, *x;
    const float     *stats, *w;
    float           *part; /* [blocks][LAYER_SUMS][cols]: of w and b; NULL: not wanted */
    int              lddx, lddy, ldx, cols, each; /* each: rows of a block */
    size_t           rows;
    struct kern_rope rope;
};

/* Of a row: the mean and 1/deviation of x; g = dy w, n = LN(x):  mean g and mean g n. */
struct alignas(16) layer_means {
    float mean, rstd, g, gn;
};

/* dy of columns c to c + W - 1, turned back by `table` with TURN. */
template <typename T, int V, bool TURN, int W>
__device__ static inline void layer_take(float (&g)[W], const struct layer_back &r, size_t row, int c,
                                         const float *table)
{
    load_by<W, V>(g, (const T *)r.dy + row * r.lddy + c);
    if constexpr (TURN)
        turn_pack<W>(g, table, -1.0f);
}

/* By a warp. */
template <typename T, int V, bool TURN>
__device__ static inline void layer_find(struct layer_means *to, const struct layer_back &r, size_t row,
                                         const float *table)
{
    enum { W = layer_pack<V, TURN>::W };
    const float mean = r.stats[2 * row], rstd = r.stats[2 * row + 1];
    float sum_g = 0, sum_gn = 0;
    turn_walk<W> turns(TURN ? r.rope.heads.dim : 1);
    lane_packs<W, 0>(r.cols, [&](int, int c) {
        float g[W], n[W], by[W];
        layer_take<T, V, TURN>(g, r, row, c, table + (TURN ? turns.next() : 0));
        load_by<W, V>(n, (const T *)r.x + row * r.ldx + c);
        load_by<W, V>(by, r.w + c);
        for (int i = 0; i < W; i++) {
            sum_g += g[i] * by[i];
            sum_gn += g[i] * by[i] * ((n[i] - mean) * rstd);
        }
    });
    sum_g = warp_sum(sum_g) / (float)r.cols;
    sum_gn = warp_sum(sum_gn) / (float)r.cols;
    if (threadIdx.x % WARP == 0)
        *to = {mean, rstd, sum_g, sum_gn};
}

/* Four numbers of bf16 as an integer: nvcc makes four stores of a pack in the loop over rows. */
template <int W, int V, typename T> __device__ static inline void layer_store(T *to, const float *from)
{
    if constexpr (V == 4 && sizeof(T) == 2) {
        pack<T, V> p;
        unsigned long long bits;
        for (int i = 0; i < V; i++)
            p.at[i] = narrow<T>(from[i]);
        memcpy(&bits, &p, sizeof(bits));
        *reinterpret_cast<unsigned long long *>(to) = bits;
    } else
        for (int i = 0; i < W; i += V)
            store<V>(to + i, from + i);
}

/* Columns c to c + W - 1 of a row: dx = (g - mean(g) - n mean(g n)) rstd, and their share in the sums. */
template <typename T, int V, bool TURN, int W>
__device__ static inline void layer_step(float (&sums)[LAYER_SUMS][W], const float (&w)[W], const struct layer_back &r,
                                         const struct layer_means &m, size_t row, int c, const float *table)
{
    float g[W], x[W];
    layer_take<T, V, TURN>(g, r, row, c, table);
    load_by<W, V>(x, (const T *)r.x + row * r.ldx + c);
    for (int i = 0; i < W; i++) {
        const float n = (x[i] - m.mean) * m.rstd;
        sums[0][i] += g[i] * n;
        sums[1][i] += g[i];
        g[i] = (g[i] * w[i] - m.g - n * m.gn) * m.rstd;
    }
    layer_store<W, V>((T *)r.dx + row * r.lddx + c, g);
}

/* Columns from c on of up to BLOCK_ROWS rows; sums: their place in those of all rows of the block, or NULL. */
template <typename T, int V, bool TURN>
__device__ static inline void layer_columns(float *sums, const struct layer_back &r, const struct layer_means *means,
                                            const float *tables, size_t row, int rows, int c)
{
    enum { W = layer_pack<V, TURN>::W };
    const int dim = r.rope.heads.dim, at = TURN ? c % dim : 0;
    float w[W], sum[LAYER_SUMS][W] = {};
    load_by<W, V>(w, r.w + c);
    for (int k = 0; k < LAYER_SUMS && sums; k++)
        load<W>(sum[k], sums + (size_t)k * r.cols + c);
    for (int i = 0; i < rows; i++)
        layer_step<T, V, TURN>(sum, w, r, means[i], row + i, c, tables + i * dim + at);
    for (int k = 0; k < LAYER_SUMS && sums; k++)
        store<W>(sums + (size_t)k * r.cols + c, sum[k]);
}

template <int W> __device__ static inline void layer_begin(float *sums, int cols)
{
    const float none[W] = {0};
    for (int k = 0; k < LAYER_SUMS && sums; k++)
        for (int c = (int)threadIdx.x * W; c < cols; c += BLOCK * W)
            store<W>(sums + (size_t)k * cols + c, none);
}

template <typename T, int V, bool TURN> __global__ void layer_norm_back_kernel(struct layer_back r)
{
    enum { W = layer_pack<V, TURN>::W };
    const size_t first = (size_t)blockIdx.x * r.each, last = first + r.each < r.rows ? first + r.each : r.rows;
    const int warp = (int)threadIdx.x / WARP;
    float *sums = r.part ? r.part + (size_t)blockIdx.x * LAYER_SUMS * r.cols : NULL; /* a column is one thread's */
    __shared__ struct layer_means means[BLOCK_ROWS];
    float *tables = layer_tables<TURN>();
    layer_begin<W>(sums, r.cols);
    for (size_t row = first; row < last; row += BLOCK_ROWS) {
        const int rows = last - row < BLOCK_ROWS ? (int)(last - row) : (int)BLOCK_ROWS;
        __syncthreads(); /* means and tables of the rows before may still be read */
        if (warp < rows) {
            float *table = tables + warp * r.rope.heads.dim;
            if constexpr (TURN)
                turn_take(table, r.rope, row + warp);
            layer_find<T, V, TURN>(&means[warp], r, row + warp, table);
        }
        __syncthreads();
        for (int c = (int)threadIdx.x * W; c < r.cols; c += BLOCK * W)
            layer_columns<T, V, TURN>(sums, r, means, tables, row, rows, c);
    }
}

struct layer_sums {
    enum { SUMS = LAYER_SUMS };
    const float *part;
    int          cols;
    __device__ void get(float *out, size_t row, int col) const
    {
        for (int k = 0; k < SUMS; k++)
            out[k] = part[(row * SUMS + k) * cols + col];
    }
};

static void layer_forward(const char *name, void *y, int ldy, float *stats, const void *x, int ldx, const float *w,
                          const float *b, int rows, int cols, float eps, const struct kern_rope *r)
{
    const struct kern_rope rope = r ? *r : kern_rope();
    const bool fours = by_four({(size_t)ldy, (size_t)ldx, (size_t)cols, (size_t)rope.heads.dim}, y, x, (const void *)w,
                               (const void *)b);
    const size_t shared = sizeof(float) * BLOCK_ROWS * (size_t)rope.heads.dim;
    for_rows(fours, cols, [&](auto t, auto v, auto n) {
        typedef decltype(t) T;
        enum { V = decltype(v)::value, N = decltype(n)::value };
        launch(name, r ? layer_norm_kernel<T, V, N, true> : layer_norm_kernel<T, V, N, false>,
               grid_of_rows((size_t)rows), dim3(BLOCK), shared, (T *)y, ldy, stats, (const T *)x, ldx, w, b,
               (size_t)rows, cols, eps, rope);
    });
}

static void cuda_layer_norm(void *y, int ldy, float *stats, const void *x, int ldx, const float *w, const float *b,
                            int rows, int cols, float eps)
{
    layer_forward("layer_norm", y, ldy, stats, x, ldx, w, b, rows, cols, eps, NULL);
}

static void cuda_layer_norm_rope(void *y, int ldy, float *stats, const void *x, int ldx, const float *w,
                                 const float *b, struct kern_rope r, float eps)
{
    const struct kern_heads s = r.heads;
    layer_forward("layer_norm_rope", y, ldy, stats, x, ldx, w, b, s.batch * s.tokens, s.heads * s.dim, eps, &r);
}

/* Rows of a block: up to LAYER_ROWS, so that about LAYER_BLOCKS blocks fill the GPU and few sums are left to add. */
static int layer_each(size_t rows)
{
    const int each = (int)tiles(tiles(rows, LAYER_BLOCKS), BLOCK_ROWS) * BLOCK_ROWS;
    return each < LAYER_ROWS ? each : (int)LAYER_ROWS;
}

static void layer_backward(const char *name, struct layer_back r, float *dw, float *db, bool turn)
{
    const struct column_to to[] = {{dw, 0, 1, 1, 0}, {db, 0, 1, 1, 0}};
    const size_t dim = (size_t)r.rope.heads.dim, cols = (size_t)r.cols;
    const bool fours = by_four({(size_t)r.lddx, (size_t)r.lddy, (size_t)r.ldx, cols, dim}, r.dx, r.dy, r.x,
                               (const void *)r.w);
    r.each = layer_each(r.rows);
    const unsigned blocks = tiles(r.rows, (size_t)r.each);
    r.part = dw ? (float *)device_scratch(SCRATCH_ROWS, sizeof(float) * blocks * LAYER_SUMS * cols) : NULL;
    if (dw && !r.part)
        return;
    for_kind(fours, [&](auto t, auto v) {
        typedef decltype(t) T;
        enum { V = decltype(v)::value };
        launch(name, turn ? layer_norm_back_kernel<T, V, true> : layer_norm_back_kernel<T, V, false>, dim3(blocks),
               dim3(BLOCK), sizeof(float) * BLOCK_ROWS * dim, r);
    });
    const struct layer_sums f = {r.part, r.cols};
    if (dw)
        column_sums(name, f, to, 1, (int)blocks, r.cols);
}

static void cuda_layer_norm_back(void *dx, int lddx, float *dw, float *db, const void *dy, int lddy, const void *x,
                                 int ldx, const float *stats, const float *w, int rows, int cols)
{
    struct layer_back r = {};
    r.dx = dx, r.dy = dy, r.x = x, r.stats = stats, r.w = w;
    r.lddx = lddx, r.lddy = lddy, r.ldx = ldx, r.cols = cols, r.rows = (size_t)rows;
    layer_backward("layer_norm_back", r, dw, db, false);
}

static void cuda_layer_norm_rope_back(void *dx, int lddx, float *dw, float *db, const void *dy, int lddy, const void *x,
                                      int ldx, const float *stats, const float *w, struct kern_rope rope)
{
    const struct kern_heads s = rope.heads;
    struct layer_back r = {};
    r.dx = dx, r.dy = dy, r.x = x, r.stats = stats, r.w = w, r.rope = rope;
    r.lddx = lddx, r.lddy = lddy, r.ldx = ldx, r.cols = s.heads * s.dim, r.rows = (size_t)s.batch * (size_t)s.tokens;
    layer_backward("layer_norm_rope_back", r, dw, db, true);
}

static void fill_norm(struct kern_ops *ops)
{
    ops->layer_norm = cuda_layer_norm;
    ops->layer_norm_back = cuda_layer_norm_back;
    ops->layer_norm_rope = cuda_layer_norm_rope;
    ops->layer_norm_rope_back = cuda_layer_norm_rope_back;
    ops->rms_norm = cuda_rms_norm;
    ops->rms_norm_back = cuda_rms_norm_back;
}
