/* SPDX-License-Identifier: Apache-2.0 */
/* attend.cu - softmax attention in fp32: of image tokens to each other, and to those of captions
 *
 * A block owns some queries of a head and streams its keys through shared memory; the sums of a row are scaled down
 * when a larger score appears, and the log of its sum is kept.  Backward, a block owns queries (dq) or the keys of a
 * key head with all heads that share it (dk, dv), and recomputes the probabilities from what was kept.  Keys after the
 * last that counts are skipped: their probabilities are zero.  Arguments, and which keys count: flash.cuh, whose
 * kernels do the same in bf16.
 *
 * causal.cu is apart: heads of a text encoder have up to 512 channels, whose tiles do not fit into shared memory, a
 * window and capped scores, and no backward pass.
 */
#include "kernels/flash.cuh"

enum {
    ATT_BLOCK = 256, ATT_WARPS = ATT_BLOCK / WARP,
    ATT_TILE = 16,
    ATT_QUERIES = 32,  /* per block */
    ATT_KEYS = 16,     /* at a time: few, so that heads of 112 channels fit into the 64 KB of an sm_75 */
    ATT_DIM = 128,     /* the most channels of a head */
    ATT_PAD = 8,       /* padding of a tile's rows, in numbers, against bank conflicts */
    ATT_LDS = ATT_KEYS + ATT_PAD,        /* row length of scores */
    ATT_ROWS = ATT_QUERIES / ATT_WARPS   /* of a warp */
};

/* c[16, 16] += a b by one warp, half a row in each lane; TA: a is stored [k][m], TB: b is stored [n][k]. */
struct att_sum {
    enum { EACH = ATT_TILE / 2 };
    float c[EACH];
    __device__ att_sum()
    {
        for (int i = 0; i < EACH; i++)
            c[i] = 0;
    }
    template <bool TA, bool TB>
    __device__ void add(const float *a, int lda, const float *b, int ldb)
    {
        const int row = (int)threadIdx.x % WARP / 2, col = (int)threadIdx.x % 2 * EACH;
        for (int k = 0; k < ATT_TILE; k++) {
            const float x = TA ? a[k * lda + row] : a[row * lda + k];
            for (int i = 0; i < EACH; i++)
                c[i] += x * (TB ? b[(col + i) * ldb + k] : b[k * ldb + col + i]);
        }
    }
    /* Each row times a number. */
    __device__ void scale(const float *by)
    {
        for (int i = 0; i < EACH; i++)
            c[i] *= by[(int)threadIdx.x % WARP / 2];
    }
    __device__ void store(float *to, int ld) const
    {
        const int row = (int)threadIdx.x % WARP / 2, col = (int)threadIdx.x % 2 * EACH;
        for (int i = 0; i < EACH; i++)
            to[row * ld + col + i] = c[i];
    }
};

/* Sizes in numbers, equal for all blocks. */
struct att_shape {
    int    dim, ldd;      /* head padded to tiles; row length of queries and keys */
    size_t queries, keys; /* numbers per tile */
};

__host__ __device__ static inline struct att_shape att_shape(int dim)
{
    const int whole = (dim + ATT_TILE - 1) / ATT_TILE * ATT_TILE, ldd = whole + ATT_PAD;
    return {whole, ldd, (size_t)ATT_QUERIES * ldd, (size_t)ATT_KEYS * ldd};
}

/* A warp's tiles of sums [ROWS, dim]. */
template <int ROWS> struct att_sums {
    enum { EACH = ROWS / ATT_TILE * (ATT_DIM / ATT_TILE) / ATT_WARPS };
    att_sum sum[EACH];
    template <typename F> __device__ void each(const struct att_shape &z, F turn)
    {
        const int across = z.dim / ATT_TILE;
        for (int i = 0; i < EACH; i++) {
            const int tile = (int)threadIdx.x / WARP + i * ATT_WARPS, r = tile / across * ATT_TILE;
            if (r < ROWS)
                turn(sum[i], r, tile % across * ATT_TILE);
        }
    }
    /* += a b of n rows of b; a: scores, TA: [n][ROWS] */
    template <bool TA> __device__ void add(const float *a, const float *b, int n, const struct att_shape &z)
    {
        each(z, [&](att_sum &s, int r, int c) {
            for (int k = 0; k < n; k += ATT_TILE)
                s.add<TA, false>(TA ? a + k * ATT_LDS + r : a + r * ATT_LDS + k, ATT_LDS, b + k * z.ldd + c, z.ldd);
        });
    }
    __device__ void scale(const float *by, const struct att_shape &z)
    {
        each(z, [&](att_sum &s, int r, int) { s.scale(by + r); });
    }
    /* Through shared memory, whose contents nobody needs any more, to `have` rows of `dim` numbers; add: += */
    template <int V>
    __device__ void write(void *to, size_t ld, float *smem, int have, int dim, bool add, const struct att_shape &z)
    {
        const int packs = (dim + V - 1) / V;
        __syncthreads();
        each(z, [&](att_sum &s, int r, int c) { s.store(smem + r * z.ldd + c, z.ldd); });
        __syncthreads();
        for (int i = (int)threadIdx.x; i < ROWS * packs && i < have * packs; i += ATT_BLOCK) {
            float x[V], y[V] = {0};
            float *at = (float *)to + (size_t)(i / packs) * ld + i % packs * V;
            load<V>(x, smem + (i / packs) * z.ldd + i % packs * V);
            if (add)
                load<V>(y, at);
            for (int k = 0; k < V; k++)
                x[k] += y[k];
            store<V>(at, x);
        }
    }
};

/* A block's tile of queries and tile of keys in shared memory. */
struct att_scratch {
    float *s, *dp; /* [queries][ATT_LDS]: scores, then probabilities; gradients of probabilities, then of scores */
    float *q, *dout, *k, *v;
    __device__ att_scratch(float *smem, const struct att_shape &z)
    {
        s = smem;
        dp = s + ATT_QUERIES * ATT_LDS;
        q = dp + ATT_QUERIES * ATT_LDS;
        dout = q + z.queries;
        k = dout + z.queries;
        v = k + z.keys;
    }
};

static size_t att_bytes(const struct att_shape &z)
{
    return 2 * (ATT_QUERIES * ATT_LDS + z.queries + z.keys) * sizeof(float);
}

/* Rows of `dim` numbers into rows of whole tiles, zero-padded. */
template <int V>
__device__ static inline void att_load(float *to, int ldd, int rows, const float *from, size_t ld, int have, int dim)
{
    const int packs = (ldd - ATT_PAD) / V;
    for (int i = (int)threadIdx.x; i < rows * packs; i += ATT_BLOCK) {
        const int r = i / packs, c = i % packs * V;
        float x[V] = {0};
        if (r < have && c < dim)
            load<V>(x, from + (size_t)r * ld + c);
        store<V>(to + r * ldd + c, x);
    }
}

template <int V>
__device__ static inline void att_load_queries(float *to, const void *from, const struct flash_args &a,
                                               const struct flash_head &at, const struct att_shape &z, int first)
{
    const size_t C = (size_t)a.s.heads * a.s.dim;
    att_load<V>(to, z.ldd, ATT_QUERIES, (const float *)from + at.q + first * C, C, a.s.tokens - first, a.s.dim);
}

template <int V>
__device__ static inline void att_load_keys(const struct att_scratch &d, const struct flash_args &a,
                                            const struct flash_head &at, const struct att_shape &z, int l)
{
    att_load<V>(d.k, z.ldd, ATT_KEYS, (const float *)a.k + at.key(a, a.ldk, l), (size_t)a.ldk, at.keys - l, a.s.dim);
    att_load<V>(d.v, z.ldd, ATT_KEYS, (const float *)a.v + at.key(a, a.ldv, l), (size_t)a.ldv, at.keys - l, a.s.dim);
}

/* to[queries, keys] = a b^T of two tiles in shared memory; warps share the result tile by tile. */
__device__ static inline void att_scores(float *to, const float *a, const float *b, const struct att_shape &z)
{
    const int across = ATT_KEYS / ATT_TILE, down = ATT_QUERIES / ATT_TILE;
    for (int i = (int)threadIdx.x / WARP; i < across * down; i += ATT_WARPS) {
        const int r = i / across * ATT_TILE, c = i % across * ATT_TILE;
        att_sum sum;
        for (int d = 0; d < z.dim; d += ATT_TILE)
            sum.add<false, true>(a + r * z.ldd + d, z.ldd, b + c * z.ldd + d, z.ldd);
        sum.store(to + r * ATT_LDS + c, ATT_LDS);
    }
}

/* --- forward --------------------------------------------------------------------------------- */

/* The largest score and the sum of a row, with the keys from l, whose scores become probabilities before division by
 * the sum; by one warp. *shrink: the factor for earlier sums. */
__device__ static inline void att_meet(float *top, float *sum, float *shrink, float *row, const struct flash_seen &seen,
                                       int l, float scale)
{
    const int lane = (int)threadIdx.x % WARP;
    const float x = lane < ATT_KEYS ? (row[lane] + seen.bias(l + lane)) * scale : FLASH_NEVER;
    const float most = fmaxf(*top, warp_max(x)), p = expf(x - most), less = expf(*top - most);
    *sum = *sum * less + warp_sum(p);
    *top = most;
    if (lane < ATT_KEYS)
        row[lane] = p;
    if (lane == 0)
        *shrink = less;
}

template <int V> __global__ void __launch_bounds__(ATT_BLOCK, 2) att_kernel(struct flash_args a, struct att_shape z)
{
    DYNAMIC_SHARED(float, smem);
    __shared__ float by[ATT_QUERIES];
    const struct att_scratch d(smem, z);
    const struct flash_head at(a, (int)blockIdx.x / a.s.heads, (int)blockIdx.x % a.s.heads);
    const struct flash_seen seen(a, at);
    const int first = (int)blockIdx.y * ATT_QUERIES, warp = (int)threadIdx.x / WARP, C = a.s.heads * a.s.dim;
    const float scale = 1.0f / sqrtf((float)a.s.dim);
    float top[ATT_ROWS], sum[ATT_ROWS];
    att_sums<ATT_QUERIES> out;
    for (int i = 0; i < ATT_ROWS; i++) {
        top[i] = FLASH_NEVER;
        sum[i] = 0;
    }
    att_load_queries<V>(d.q, a.q, a, at, z, first);
    for (int l = 0; l < seen.keys; l += ATT_KEYS) {
        __syncthreads();
        att_load_keys<V>(d, a, at, z, l);
        __syncthreads();
        att_scores(d.s, d.q, d.k, z);
        __syncthreads();
        for (int i = 0; i < ATT_ROWS; i++) {
            const int r = warp + i * ATT_WARPS;
            att_meet(&top[i], &sum[i], by + r, d.s + r * ATT_LDS, seen, l, scale);
        }
        __syncthreads();
        out.scale(by, z);
        out.add<false>(d.s, d.v, ATT_KEYS, z);
    }
    __syncthreads();
    for (int i = 0; i < ATT_ROWS && threadIdx.x % WARP == 0; i++) {
        const int r = warp + i * ATT_WARPS;
        by[r] = sum[i] > 0 ? 1.0f / sum[i] : 0.0f;
        if (first + r < a.s.tokens)
            a.kept[at.rows + first + r] = top[i] + logf(sum[i]);
    }
    __syncthreads();
    out.scale(by, z);
    out.write<V>((float *)a.out + at.q + (size_t)first * C, (size_t)C, d.k, a.s.tokens - first, a.s.dim, false, z);
}

/* --- backward -------------------------------------------------------------------------------- */

/* Scores of the loaded queries and keys, and the gradients of their probabilities. */
__device__ static inline void att_both(const struct att_scratch &d, const struct att_shape &z)
{
    __syncthreads();
    att_scores(d.s, d.q, d.k, z);
    att_scores(d.dp, d.dout, d.v, z);
    __syncthreads();
}

/* Probabilities of the queries from `first` and the keys from l, in place of their scores. */
__device__ static inline void att_probs(const struct att_scratch &d, const struct flash_args &a,
                                        const struct flash_head &at, const struct flash_seen &seen, int first, int l)
{
    const float scale = 1.0f / sqrtf((float)a.s.dim);
    for (int i = (int)threadIdx.x; i < ATT_QUERIES * ATT_KEYS; i += ATT_BLOCK) {
        const int r = i / ATT_KEYS, k = i % ATT_KEYS, to = r * ATT_LDS + k;
        d.s[to] = first + r < a.s.tokens ? expf((d.s[to] + seen.bias(l + k)) * scale - a.kept[at.rows + first + r]) : 0;
    }
    __syncthreads();
}

/* Gradients of scores, in place of those of probabilities. stats: of each query, see att_stats() */
__device__ static inline void att_slopes(const struct att_scratch &d, const float *stats, int have, float scale)
{
    for (int i = (int)threadIdx.x; i < ATT_QUERIES * ATT_KEYS; i += ATT_BLOCK) {
        const int r = i / ATT_KEYS, to = r * ATT_LDS + i % ATT_KEYS;
        const float p = r < have ? d.s[to] * stats[2 * r + 1] : 0.0f;
        d.s[to] = p;
        d.dp[to] = r < have ? p * (d.dp[to] - stats[2 * r]) * scale : 0.0f;
    }
    __syncthreads();
}

/* Of each query the sum over keys of p dp, and 1 / the sum of p, in shared memory and for the keys. Without the result
 * of the forward pass they come from another pass over the keys: its sum of p is not 1 where the log of a large sum was
 * rounded. */
template <int V>
__device__ static inline void att_stats(float *stats, const struct att_scratch &d, const struct flash_args &a,
                                        const struct flash_head &at, const struct flash_seen &seen,
                                        const struct att_shape &z, int first)
{
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    float sum[ATT_ROWS] = {0}, whole[ATT_ROWS] = {0};
    for (int l = 0; !a.was && l < seen.keys; l += ATT_KEYS) {
        att_load_keys<V>(d, a, at, z, l); /* those before were read before the last barrier */
        att_both(d, z);
        att_probs(d, a, at, seen, first, l);
        for (int i = 0; i < ATT_ROWS && lane < ATT_KEYS; i++) {
            const int to = (warp + i * ATT_WARPS) * ATT_LDS + lane;
            sum[i] += d.s[to] * d.dp[to];
            whole[i] += d.s[to];
        }
    }
    for (int i = 0; i < ATT_ROWS; i++) {
        const int r = warp + i * ATT_WARPS;
        const size_t row = at.q + (size_t)(first + r) * a.s.heads * a.s.dim;
        for (int c = lane; a.was && first + r < a.s.tokens && c < a.s.dim; c += WARP)
            sum[i] += ((const float *)a.dout)[row + c] * ((const float *)a.was)[row + c];
        const float total = warp_sum(whole[i]), by = a.was ? 1.0f : 1.0f / total, both[2] = {warp_sum(sum[i]) * by, by};
        for (int k = 0; k < 2 && lane == 0 && first + r < a.s.tokens; k++)
            stats[2 * r + k] = a.stats[2 * (at.rows + first + r) + k] = both[k];
    }
}

/* dq = ds k, or +=: a block owns queries and streams the keys. */
template <int V> __global__ void __launch_bounds__(ATT_BLOCK, 2)
att_query_back_kernel(struct flash_args a, struct att_shape z)
{
    DYNAMIC_SHARED(float, smem);
    __shared__ float stats[2 * ATT_QUERIES];
    const struct att_scratch d(smem, z);
    const struct flash_head at(a, (int)blockIdx.x / a.s.heads, (int)blockIdx.x % a.s.heads);
    const struct flash_seen seen(a, at);
    const int first = (int)blockIdx.y * ATT_QUERIES, have = a.s.tokens - first, C = a.s.heads * a.s.dim;
    const float scale = 1.0f / sqrtf((float)a.s.dim);
    att_sums<ATT_QUERIES> dq;
    att_load_queries<V>(d.q, a.q, a, at, z, first);
    att_load_queries<V>(d.dout, a.dout, a, at, z, first);
    att_stats<V>(stats, d, a, at, seen, z, first);
    for (int l = 0; l < seen.keys; l += ATT_KEYS) {
        __syncthreads();
        att_load_keys<V>(d, a, at, z, l);
        att_both(d, z);
        att_probs(d, a, at, seen, first, l);
        att_slopes(d, stats, have, scale);
        dq.add<false>(d.dp, d.k, ATT_KEYS, z);
    }
    dq.write<V>((float *)a.dq + at.q + (size_t)first * C, (size_t)C, d.q, have, a.s.dim, a.add, z);
}

/* dv = p^T dout, dk = ds^T q: a block owns keys and streams the queries of all heads that share them. */
template <int V> __global__ void __launch_bounds__(ATT_BLOCK, 2)
att_key_back_kernel(struct flash_args a, struct att_shape z)
{
    DYNAMIC_SHARED(float, smem);
    const struct att_scratch d(smem, z);
    const int b = (int)blockIdx.x / a.t.heads, group = (int)blockIdx.x % a.t.heads;
    const int shared = a.s.heads / a.t.heads, l = (int)blockIdx.y * ATT_KEYS;
    const float scale = 1.0f / sqrtf((float)a.s.dim);
    const struct flash_head of(a, b, group * shared);
    const struct flash_seen seen(a, of);
    const int have = of.keys - l;
    if (have < 1)
        return;
    att_sums<ATT_KEYS> dv, dk;
    att_load_keys<V>(d, a, of, z, l);
    for (int h = group * shared; l < seen.keys && h < (group + 1) * shared; h++) {
        const struct flash_head at(a, b, h);
        for (int first = 0; first < a.s.tokens; first += ATT_QUERIES) {
            __syncthreads();
            att_load_queries<V>(d.q, a.q, a, at, z, first);
            att_load_queries<V>(d.dout, a.dout, a, at, z, first);
            att_both(d, z);
            att_probs(d, a, at, seen, first, l);
            att_slopes(d, a.stats + 2 * (at.rows + first), a.s.tokens - first, scale);
            dv.add<true>(d.s, d.dout, ATT_QUERIES, z);
            dk.add<true>(d.dp, d.q, ATT_QUERIES, z);
        }
    }
    const size_t to = of.key(a, a.lddkv, l);
    dv.write<V>((float *)a.dv + to, (size_t)a.lddkv, d.q, have, a.s.dim, false, z);
    dk.write<V>((float *)a.dk + to, (size_t)a.lddkv, d.q, have, a.s.dim, false, z);
}

/* --- the table --------------------------------------------------------------------------------- */

static void att_forward(const char *name, const struct flash_args &a)
{
    const dim3 grid((unsigned)(a.s.batch * a.s.heads), tiles((size_t)a.s.tokens, ATT_QUERIES));
    if (device.precision == KERN_BF16) {
        flash_forward(name, a);
        return;
    }
    for_fp32(by_four({(size_t)a.s.dim, (size_t)a.ldk, (size_t)a.ldv}, a.out, a.q, a.k, a.v), [&](auto fours) {
        const struct att_shape z = att_shape(a.s.dim);
        launch(name, att_kernel<decltype(fours)::value>, grid, dim3(ATT_BLOCK), att_bytes(z), a, z);
    });
}

static void att_backward(const char *name, struct flash_args a)
{
    if (!flash_room(&a))
        return;
    if (device.precision == KERN_BF16) {
        flash_backward(name, a);
        return;
    }
    for_fp32(by_four({(size_t)a.s.dim, (size_t)a.ldk, (size_t)a.ldv, (size_t)a.lddkv}, a.dq, a.dk, a.dv, a.dout, a.q,
                     a.k, a.v), [&](auto fours) {
        const struct att_shape z = att_shape(a.s.dim);
        launch(name, att_query_back_kernel<decltype(fours)::value>,
               dim3((unsigned)(a.s.batch * a.s.heads), tiles((size_t)a.s.tokens, ATT_QUERIES)), dim3(ATT_BLOCK),
               att_bytes(z), a, z);
        launch(name, att_key_back_kernel<decltype(fours)::value>,
               dim3((unsigned)(a.s.batch * a.t.heads), tiles((size_t)a.t.most, ATT_KEYS)), dim3(ATT_BLOCK),
               att_bytes(z), a, z);
    });
}

static struct flash_args att_args(const float *kept, const void *q, const void *k, int ldk, const void *v, int ldv,
                                  struct kern_keys t, struct kern_heads s)
{
    struct flash_args a = {};
    a.kept = (float *)(uintptr_t)kept, a.q = q, a.k = k, a.ldk = ldk, a.v = v, a.ldv = ldv, a.t = t, a.s = s;
    return a;
}

static void cuda_attend(void *out, float *kept, const void *q, const void *k, int ldk, const void *v, int ldv,
                        struct kern_keys t, struct kern_heads s)
{
    struct flash_args a = att_args(kept, q, k, ldk, v, ldv, t, s);
    a.out = out;
    att_forward("attend", a);
}

static void cuda_attend_back(void *dq, void *dk, void *dv, int lddkv, const void *dout, const void *out,
                             const float *kept, const void *q, const void *k, int ldk, const void *v, int ldv,
                             struct kern_keys t, struct kern_heads s)
{
    struct flash_args a = att_args(kept, q, k, ldk, v, ldv, t, s);
    a.dq = dq, a.dk = dk, a.dv = dv, a.lddkv = lddkv, a.dout = dout, a.was = out, a.add = true;
    att_backward("attend_back", a);
}

static void cuda_cross_attn(void *out, float *kept, const void *q, const void *k, int ldk, const void *v, int ldv,
                            struct kern_text t, struct kern_heads s)
{
    struct flash_args a = att_args(kept, q, k, ldk, v, ldv, {t.first, t.most, s.heads}, s);
    a.out = out, a.mask = t.mask;
    att_forward("cross_attn", a);
}

static void cuda_cross_attn_back(void *dq, void *dk, void *dv, int lddkv, float *work, const void *dout,
                                 const float *kept, const void *q, const void *k, int ldk, const void *v, int ldv,
                                 struct kern_text t, struct kern_heads s)
{
    struct flash_args a = att_args(kept, q, k, ldk, v, ldv, {t.first, t.most, s.heads}, s);
    (void)work;
    a.dq = dq, a.dk = dk, a.dv = dv, a.lddkv = lddkv, a.dout = dout, a.mask = t.mask;
    att_backward("cross_attn_back", a);
}

static void fill_attend(struct kern_ops *ops)
{
    ops->cross_attn_dim = ATT_DIM;
    ops->cross_attn = cuda_cross_attn;
    ops->cross_attn_back = cuda_cross_attn_back;
    ops->attend = cuda_attend;
    ops->attend_back = cuda_attend_back;
}
