/* SPDX-License-Identifier: Apache-2.0 */
/* attend.cu - softmax self-attention with grouped keys, without a full array of probabilities
 *
 * A block owns some queries of a head and streams its keys twice: first for the log of each row's sum, which is kept,
 * then for the products, whose sums therefore need no rescaling.  Backward, a block owns queries (dq) or the keys of
 * a key head with all heads that share it (dk, dv), and recomputes the probabilities from what was kept.  Tiles and
 * products are those of crossattn.cu.  This is fp32; in bf16 flash.cu does the work.
 */
#include "kernels/device.cuh"

struct attend_args {
    void             *out, *dq, *dk, *dv;
    float            *kept, *delta; /* [batch, heads, tokens]: the log of each row's sum; dout . out of each row */
    const void       *q, *k, *v, *dout, *was; /* was: out */
    int               ldk, ldv, lddkv;
    struct kern_keys  t;
    struct kern_heads s;
};

enum { ATTEND_ROWS = ATT_QUERIES / ATT_WARPS /* of a warp */ };

/* Where the queries and the keys of a sample's head begin. */
struct attend_head {
    int    keys, first, group; /* rows of keys, the first of them, and the key head */
    size_t q, rows;            /* offsets in q and out; in kept and delta */
    __device__ attend_head(const struct attend_args &a, int b, int h)
    {
        first = text_first(a.t.first, a.t.most, b);
        keys = text_first(a.t.first, a.t.most, b + 1) - first;
        group = h / (a.s.heads / a.t.heads);
        q = (size_t)b * a.s.tokens * a.s.heads * a.s.dim + (size_t)h * a.s.dim;
        rows = ((size_t)b * a.s.heads + h) * a.s.tokens;
    }
    /* Row `l` of keys or values with rows of `ld`. */
    __device__ size_t key(const struct attend_args &a, int ld, int l) const
    {
        return (size_t)(first + l) * ld + (size_t)group * a.s.dim;
    }
};

template <int V>
__device__ static inline void attend_load_queries(float *to, const void *from, const struct attend_args &a,
                                                  const struct attend_head &at, const struct att_shape &z, int first)
{
    const size_t C = (size_t)a.s.heads * a.s.dim;
    att_load<V>(to, z.ldd, ATT_QUERIES, (const float *)from + at.q + first * C, C, a.s.tokens - first, a.s.dim);
}

template <int V>
__device__ static inline void attend_load_keys(float *to, const void *from, int ld, const struct attend_args &a,
                                               const struct attend_head &at, const struct att_shape &z, int l)
{
    att_load<V>(to, z.ldd, ATT_KEYS, (const float *)from + at.key(a, ld, l), (size_t)ld, at.keys - l, a.s.dim);
}

/* The maximum and the sum of a row, with the next n of its scores; by one warp. */
__device__ static inline void attend_meet(float &top, float &sum, const float *row, int n, float scale)
{
    const int lane = (int)threadIdx.x % WARP;
    float most = top, part = 0;
    for (int l = lane; l < n; l += WARP)
        most = fmaxf(most, row[l] * scale);
    most = warp_max(most);
    for (int l = lane; l < n; l += WARP)
        part += expf(row[l] * scale - most);
    sum = sum * expf(top - most) + warp_sum(part);
    top = most;
}

/* The log of the sum of each row that this warp has. */
template <int V>
__device__ static inline void attend_logs(float *log_sum, const struct att_scratch &d, const struct attend_args &a,
                                          const struct attend_head &at, const struct att_shape &z, float scale)
{
    const int warp = (int)threadIdx.x / WARP;
    float top[ATTEND_ROWS], sum[ATTEND_ROWS];
    for (int i = 0; i < ATTEND_ROWS; i++) {
        top[i] = -FLT_MAX;
        sum[i] = 0;
    }
    for (int l = 0; l < at.keys; l += ATT_KEYS) {
        attend_load_keys<V>(d.k, a.k, a.ldk, a, at, z, l); /* those before were read before the last barrier */
        __syncthreads();
        att_scores(d.s, ATT_LDS, d.q, d.k, z);
        __syncthreads();
        for (int i = 0; i < ATTEND_ROWS; i++)
            attend_meet(top[i], sum[i], d.s + (warp + i * ATT_WARPS) * ATT_LDS,
                        at.keys - l < ATT_KEYS ? at.keys - l : ATT_KEYS, scale);
    }
    for (int i = 0; i < ATTEND_ROWS; i++)
        log_sum[i] = top[i] + logf(sum[i]);
}

/* The probabilities of n keys for the rows of this warp, in place of scores; 0 behind them. */
__device__ static inline void attend_probs(const struct att_scratch &d, const float *log_sum, int n, float scale)
{
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    for (int i = 0; i < ATTEND_ROWS; i++) {
        const int r = (warp + i * ATT_WARPS) * ATT_LDS;
        for (int l = lane; l < ATT_KEYS; l += WARP)
            d.s[r + l] = l < n ? expf(d.s[r + l] * scale - log_sum[i]) : 0.0f;
    }
}

template <int V> __global__ void __launch_bounds__(ATT_BLOCK, 2)
attend_kernel(struct attend_args a, struct att_shape z)
{
    DYNAMIC_SHARED(float, smem);
    const struct att_scratch d = att_furnish(smem, z);
    const struct attend_head at(a, (int)blockIdx.x / a.s.heads, (int)blockIdx.x % a.s.heads);
    const int first = (int)blockIdx.y * ATT_QUERIES, warp = (int)threadIdx.x / WARP;
    const int have = a.s.tokens - first < ATT_QUERIES ? a.s.tokens - first : ATT_QUERIES;
    const int across = z.dim / ATT_TILE, C = a.s.heads * a.s.dim;
    const float scale = 1.0f / sqrtf((float)a.s.dim);
    float log_sum[ATTEND_ROWS];
    att_sum sum[ATT_EACH];
    attend_load_queries<V>(d.q, a.q, a, at, z, first);
    attend_logs<V>(log_sum, d, a, at, z, scale);
    for (int i = 0; i < ATTEND_ROWS; i++)
        if (threadIdx.x % WARP == 0 && warp + i * ATT_WARPS < have)
            a.kept[at.rows + first + warp + i * ATT_WARPS] = log_sum[i];
    for (int l = 0; l < at.keys; l += ATT_KEYS) {
        __syncthreads();
        attend_load_keys<V>(d.k, a.k, a.ldk, a, at, z, l);
        attend_load_keys<V>(d.v, a.v, a.ldv, a, at, z, l);
        __syncthreads();
        att_scores(d.s, ATT_LDS, d.q, d.k, z);
        __syncthreads();
        attend_probs(d, log_sum, at.keys - l, scale);
        __syncthreads();
        for (int i = 0; i < ATT_EACH; i++) {
            const int tile = warp + i * ATT_WARPS, r = tile / across * ATT_TILE;
            for (int k = 0; r < ATT_QUERIES && k < ATT_KEYS; k += ATT_TILE)
                sum[i].add<false, false>(d.s + r * ATT_LDS + k, ATT_LDS, d.v + k * z.ldd + tile % across * ATT_TILE,
                                         z.ldd);
        }
    }
    __syncthreads();
    float *to = d.k; /* keys and values are no longer needed: fp32 rows overwrite them */
    for (int i = 0; i < ATT_EACH; i++) {
        const int tile = warp + i * ATT_WARPS, r = tile / across * ATT_TILE;
        if (r < ATT_QUERIES)
            sum[i].store(to + r * z.ldd + tile % across * ATT_TILE, z.ldd);
    }
    __syncthreads();
    att_write<V>((float *)a.out + at.q + (size_t)first * C, (size_t)C, to, z.ldd, have, a.s.dim);
}

/* --- backward -------------------------------------------------------------------------------- */

/* delta = dout . out of a row of a head: a warp each. */
__global__ void attend_delta_kernel(struct attend_args a)
{
    const size_t row = ((size_t)blockIdx.x * BLOCK + threadIdx.x) / WARP; /* sample, token, head */
    const size_t heads = a.s.heads, tokens = a.s.tokens;
    if (row >= (size_t)a.s.batch * tokens * heads)
        return;
    const float *dout = (const float *)a.dout + row * a.s.dim, *out = (const float *)a.was + row * a.s.dim;
    float sum = 0;
    for (int i = (int)threadIdx.x % WARP; i < a.s.dim; i += WARP)
        sum += dout[i] * out[i];
    sum = warp_sum(sum);
    if (threadIdx.x % WARP == 0)
        a.delta[(row / heads / tokens * heads + row % heads) * tokens + row / heads % tokens] = sum;
}

/* Probabilities and gradients of scores of the queries from `first` and n keys, in place. */
__device__ static inline void attend_slopes(const struct att_scratch &d, const struct attend_args &a,
                                            const struct attend_head &at, int first, int n)
{
    const float scale = 1.0f / sqrtf((float)a.s.dim);
    for (int i = (int)threadIdx.x; i < ATT_QUERIES * ATT_KEYS; i += ATT_BLOCK) {
        const int r = i / ATT_KEYS, k = i % ATT_KEYS, to = r * ATT_LDS + k;
        float p = 0, ds = 0;
        if (first + r < a.s.tokens && k < n) {
            p = expf(d.s[to] * scale - a.kept[at.rows + first + r]);
            ds = p * (d.dp[to] - a.delta[at.rows + first + r]) * scale;
        }
        d.s[to] = p;
        d.dp[to] = ds;
    }
    __syncthreads();
}

/* to += rows of shared memory. */
template <int V>
__device__ static inline void attend_add(float *to, size_t ld, const float *from, int ldf, int rows, int dim)
{
    const int packs = (dim + V - 1) / V;
    for (int i = (int)threadIdx.x; i < rows * packs; i += ATT_BLOCK) {
        float x[V], y[V];
        float *at = to + (size_t)(i / packs) * ld + i % packs * V;
        load<V>(x, from + (i / packs) * ldf + i % packs * V);
        load<V>(y, at);
        for (int k = 0; k < V; k++)
            x[k] += y[k];
        store<V>(at, x);
    }
}

/* dq += ds k: a block owns queries and streams the keys. */
template <int V> __global__ void __launch_bounds__(ATT_BLOCK, 2)
attend_query_back_kernel(struct attend_args a, struct att_shape z)
{
    DYNAMIC_SHARED(float, smem);
    const struct att_scratch d = att_furnish(smem, z);
    const struct attend_head at(a, (int)blockIdx.x / a.s.heads, (int)blockIdx.x % a.s.heads);
    const int first = (int)blockIdx.y * ATT_QUERIES, warp = (int)threadIdx.x / WARP;
    const int have = a.s.tokens - first < ATT_QUERIES ? a.s.tokens - first : ATT_QUERIES;
    const int across = z.dim / ATT_TILE, C = a.s.heads * a.s.dim;
    att_sum sum[ATT_EACH];
    attend_load_queries<V>(d.q, a.q, a, at, z, first);
    attend_load_queries<V>(d.dout, a.dout, a, at, z, first);
    for (int l = 0; l < at.keys; l += ATT_KEYS) {
        __syncthreads();
        attend_load_keys<V>(d.k, a.k, a.ldk, a, at, z, l);
        attend_load_keys<V>(d.v, a.v, a.ldv, a, at, z, l);
        att_both(d, z);
        attend_slopes(d, a, at, first, at.keys - l);
        for (int i = 0; i < ATT_EACH; i++) {
            const int tile = warp + i * ATT_WARPS, r = tile / across * ATT_TILE;
            for (int k = 0; r < ATT_QUERIES && k < ATT_KEYS; k += ATT_TILE)
                sum[i].add<false, false>(d.dp + r * ATT_LDS + k, ATT_LDS, d.k + k * z.ldd + tile % across * ATT_TILE,
                                         z.ldd);
        }
    }
    __syncthreads();
    float *to = d.k;
    for (int i = 0; i < ATT_EACH; i++) {
        const int tile = warp + i * ATT_WARPS, r = tile / across * ATT_TILE;
        if (r < ATT_QUERIES)
            sum[i].store(to + r * z.ldd + tile % across * ATT_TILE, z.ldd);
    }
    __syncthreads();
    attend_add<V>((float *)a.dq + at.q + (size_t)first * C, (size_t)C, to, z.ldd, have, a.s.dim);
}

/* dv = p^T dout, dk = ds^T q: a block owns keys and streams the queries of all heads that share them. */
template <int V> __global__ void __launch_bounds__(ATT_BLOCK, 2)
attend_key_back_kernel(struct attend_args a, struct att_shape z)
{
    DYNAMIC_SHARED(float, smem);
    const struct att_scratch d = att_furnish(smem, z);
    const int b = (int)blockIdx.x / a.t.heads, group = (int)blockIdx.x % a.t.heads;
    const int shared = a.s.heads / a.t.heads, l = (int)blockIdx.y * ATT_KEYS, warp = (int)threadIdx.x / WARP;
    const int across = z.dim / ATT_TILE;
    const struct attend_head of(a, b, group * shared);
    const int have = of.keys - l < ATT_KEYS ? of.keys - l : ATT_KEYS;
    if (have < 1)
        return;
    att_sum dv[ATT_KEY_EACH], dk[ATT_KEY_EACH];
    attend_load_keys<V>(d.k, a.k, a.ldk, a, of, z, l);
    attend_load_keys<V>(d.v, a.v, a.ldv, a, of, z, l);
    for (int h = group * shared; h < (group + 1) * shared; h++) {
        const struct attend_head at(a, b, h);
        for (int first = 0; first < a.s.tokens; first += ATT_QUERIES) {
            __syncthreads();
            attend_load_queries<V>(d.q, a.q, a, at, z, first);
            attend_load_queries<V>(d.dout, a.dout, a, at, z, first);
            att_both(d, z);
            attend_slopes(d, a, at, first, have);
            for (int i = 0; i < ATT_KEY_EACH; i++) {
                const int tile = warp + i * ATT_WARPS, r = tile / across * ATT_TILE;
                const int c = tile % across * ATT_TILE;
                for (int k = 0; r < ATT_KEYS && k < ATT_QUERIES; k += ATT_TILE)
                    dv[i].add<true, false>(d.s + k * ATT_LDS + r, ATT_LDS, d.dout + k * z.ldd + c, z.ldd);
                for (int k = 0; r < ATT_KEYS && k < ATT_QUERIES; k += ATT_TILE)
                    dk[i].add<true, false>(d.dp + k * ATT_LDS + r, ATT_LDS, d.q + k * z.ldd + c, z.ldd);
            }
        }
    }
    const size_t to = of.key(a, a.lddkv, l);
    att_put_keys<V>((float *)a.dv + to, a.lddkv, d.q, dv, z, have, a.s.dim);
    att_put_keys<V>((float *)a.dk + to, a.lddkv, d.q, dk, z, have, a.s.dim);
}

/* The same for the kernels in bf16. */
static struct flash_args attend_flash(const struct attend_args &a)
{
    struct flash_args f = {};
    f.out = a.out, f.dq = a.dq, f.dk = a.dk, f.dv = a.dv, f.kept = a.kept, f.q = a.q, f.k = a.k, f.v = a.v;
    f.dout = a.dout, f.was = a.was, f.ldk = a.ldk, f.ldv = a.ldv, f.lddkv = a.lddkv, f.add = true;
    f.t = a.t, f.s = a.s;
    return f;
}

static void cuda_attend(void *out, float *kept, const void *q, const void *k, int ldk, const void *v, int ldv,
                        struct kern_keys t, struct kern_heads s)
{
    struct attend_args a = {};
    a.out = out, a.kept = kept, a.q = q, a.k = k, a.v = v, a.ldk = ldk, a.ldv = ldv, a.t = t, a.s = s;
    const dim3 grid((unsigned)(s.batch * s.heads), tiles((size_t)s.tokens, ATT_QUERIES));
    if (device.precision == KERN_BF16) {
        flash_forward("attend", attend_flash(a));
        return;
    }
    for_fp32(by_four({(size_t)s.dim, (size_t)ldk, (size_t)ldv}, out, q, k, v), [&](auto fours) {
        const struct att_shape z = att_shape(s.dim, ATT_KEYS);
        const size_t bytes = att_desk_bytes(z);
        if (att_fits(bytes, t.most))
            launch("attend", attend_kernel<decltype(fours)::value>, grid, dim3(ATT_BLOCK), bytes, a, z);
    });
}

static void cuda_attend_back(void *dq, void *dk, void *dv, int lddkv, const void *dout, const void *out,
                             const float *kept, const void *q, const void *k, int ldk, const void *v, int ldv,
                             struct kern_keys t, struct kern_heads s)
{
    const size_t rows = (size_t)s.batch * (size_t)s.heads * (size_t)s.tokens;
    struct attend_args a = {};
    a.dq = dq, a.dk = dk, a.dv = dv, a.lddkv = lddkv, a.dout = dout, a.was = out;
    a.kept = (float *)(uintptr_t)kept, a.q = q, a.k = k, a.v = v, a.ldk = ldk, a.ldv = ldv, a.t = t, a.s = s;
    if (device.precision == KERN_BF16) {
        struct flash_args f = attend_flash(a);
        if (flash_room(&f))
            flash_backward("attend_back", f);
        return;
    }
    a.delta = (float *)device_scratch(SCRATCH_PARTS, rows * sizeof(float));
    if (!a.delta)
        return;
    for_fp32(by_four({(size_t)s.dim, (size_t)ldk, (size_t)ldv, (size_t)lddkv}, dq, dk, dv, dout, q, k, v),
             [&](auto fours) {
        const struct att_shape z = att_shape(s.dim, ATT_KEYS);
        const size_t bytes = att_desk_bytes(z);
        if (!att_fits(bytes, t.most))
            return;
        launch("attend_back", attend_delta_kernel, dim3(tiles(rows * WARP, BLOCK)), dim3(BLOCK), 0, a);
        launch("attend_back", attend_query_back_kernel<decltype(fours)::value>,
               dim3((unsigned)(s.batch * s.heads), tiles((size_t)s.tokens, ATT_QUERIES)), dim3(ATT_BLOCK), bytes, a, z);
        launch("attend_back", attend_key_back_kernel<decltype(fours)::value>,
               dim3((unsigned)(s.batch * t.heads), tiles((size_t)t.most, ATT_KEYS)), dim3(ATT_BLOCK), bytes, a, z);
    });
}

static void fill_attend(struct kern_ops *ops)
{
    ops->attend = cuda_attend;
    ops->attend_back = cuda_attend_back;
}
