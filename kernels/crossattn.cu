/* SPDX-License-Identifier: Apache-2.0 */
/* crossattn.cu - softmax attention of image tokens to caption tokens
 *
 * A block owns some queries of a head (forward) or some keys (backward) and streams
 * the other side through shared memory; probabilities stay in shared
 * memory.  The padding after a caption's last token is skipped: its
 * probabilities are exactly zero.  This is fp32; in bf16 flash.cu does the work.
 */
#include <float.h>

#include "kernels/device.cuh"
#include "kernels/tile.h"

enum {
    ATT_BLOCK = 256, ATT_WARPS = ATT_BLOCK / WARP,
    ATT_TILE = 16,
    ATT_QUERIES = 32,  /* per block */
    ATT_KEYS = 16,     /* at a time: few, so that heads of 112 channels fit into the 64 KB of an sm_75 */
    ATT_DIM = 128,     /* the most channels of a head */
    ATT_PAD = 8,       /* padding of a tile's rows, in numbers, against bank conflicts */
    ATT_LDS = ATT_KEYS + ATT_PAD /* row length of scores, backward */
};
#define ATT_MASKED 10000.0f

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
    __device__ void store(float *to, int ld) const
    {
        const int row = (int)threadIdx.x % WARP / 2, col = (int)threadIdx.x % 2 * EACH;
        for (int i = 0; i < EACH; i++)
            to[row * ld + col + i] = c[i];
    }
};

struct att_args {
    void             *out, *dq, *dk, *dv;
    float            *kept, *delta; /* maximum and 1 / sum of each row; sum of p dp of each row */
    const void       *q, *k, *v, *dout;
    int               ldk, ldv, lddkv;
    struct kern_text  t;
    struct kern_heads s;
};

/* Sizes in numbers, equal for all blocks. */
struct att_shape {
    int    dim, ldd, lds; /* head padded to tiles; row lengths of q and k, of scores */
    size_t queries, keys; /* numbers per tile */
};

__host__ __device__ static inline struct att_shape att_shape(int dim, int text)
{
    const int whole = (dim + ATT_TILE - 1) / ATT_TILE * ATT_TILE;
    const int wide = (text + ATT_KEYS - 1) / ATT_KEYS * ATT_KEYS;
    return {whole, whole + ATT_PAD, wide + ATT_PAD, (size_t)ATT_QUERIES * (whole + ATT_PAD),
            (size_t)ATT_KEYS * (whole + ATT_PAD)};
}

/* Offsets of a block's sample and head, and of the sample's caption. */
struct att_head {
    int    h, text;        /* text: rows of the caption */
    int    first;          /* its first row in k, v and the mask */
    size_t q, rows;        /* in q and out; in kept and delta */
    __device__ att_head(const struct att_args &a)
    {
        const int b = (int)blockIdx.x / a.s.heads;
        h = (int)blockIdx.x % a.s.heads;
        first = text_first(a.t.first, a.t.most, b);
        text = text_first(a.t.first, a.t.most, b + 1) - first;
        q = (size_t)b * a.s.tokens * a.s.heads * a.s.dim + (size_t)h * a.s.dim;
        rows = (size_t)blockIdx.x * a.s.tokens;
    }
    __device__ size_t caption(const struct att_args &a, int ld) const
    {
        return (size_t)first * ld + (size_t)h * a.s.dim;
    }
};

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

/* Keys up to the last valid one; all if every key is masked. */
__device__ static inline int att_last(const float *mask, int text)
{
    __shared__ float most[ATT_WARPS];
    float last = 0;
    for (int l = (int)threadIdx.x; l < text; l += ATT_BLOCK)
        last = mask[l] != 0.0f ? (float)(l + 1) : last;
    last = warp_max(last);
    if (threadIdx.x % WARP == 0)
        most[threadIdx.x / WARP] = last;
    __syncthreads();
    for (int w = 0; w < ATT_WARPS; w++)
        last = fmaxf(last, most[w]);
    return last > 0 ? (int)last : text;
}

/* to[queries, keys] = a b^T of two tiles in shared memory; warps share the result tile by tile. */
__device__ static inline void att_scores(float *to, int ld, const float *a, const float *b, const struct att_shape &z)
{
    const int across = ATT_KEYS / ATT_TILE, down = ATT_QUERIES / ATT_TILE;
    for (int i = (int)threadIdx.x / WARP; i < across * down; i += ATT_WARPS) {
        const int r = i / across * ATT_TILE, c = i % across * ATT_TILE;
        att_sum sum;
        for (int d = 0; d < z.dim; d += ATT_TILE)
            sum.add<false, true>(a + r * z.ldd + d, z.ldd, b + c * z.ldd + d, z.ldd);
        sum.store(to + (size_t)r * ld + c, ld);
    }
}

/* Softmax of a row of scores by one warp, in place. */
__device__ static inline void att_softmax(float *row, float kept[2], const float *mask, float scale, int keys,
                                          int width)
{
    const int lane = (int)threadIdx.x % WARP;
    float top = -FLT_MAX, sum = 0;
    for (int l = lane; l < keys; l += WARP) {
        row[l] = row[l] * scale + (mask[l] - 1.0f) * ATT_MASKED;
        top = fmaxf(top, row[l]);
    }
    top = warp_max(top);
    for (int l = lane; l < keys; l += WARP) {
        row[l] = expf(row[l] - top);
        sum += row[l];
    }
    const float share = 1.0f / warp_sum(sum);
    for (int l = lane; l < width; l += WARP)
        row[l] = l < keys ? row[l] * share : 0.0f;
    if (lane == 0) {
        kept[0] = top;
        kept[1] = share;
    }
}

/* Copies [rows, dim] from shared memory to global memory. */
template <int V>
__device__ static inline void att_write(float *to, size_t ld, const float *from, int ldf, int rows, int dim)
{
    const int packs = (dim + V - 1) / V;
    for (int i = (int)threadIdx.x; i < rows * packs; i += ATT_BLOCK) {
        float x[V];
        load<V>(x, from + (i / packs) * ldf + i % packs * V);
        store<V>(to + (size_t)(i / packs) * ld + i % packs * V, x);
    }
}

/* Tiles of a warp, of the rows of all queries and of all keys. */
enum {
    ATT_EACH = ATT_QUERIES / ATT_TILE * (ATT_DIM / ATT_TILE) / ATT_WARPS,
    ATT_KEY_EACH = ATT_KEYS / ATT_TILE * (ATT_DIM / ATT_TILE) / ATT_WARPS
};

template <int V> __global__ void __launch_bounds__(ATT_BLOCK, 2)
att_kernel(struct att_args a, struct att_shape z)
{
    const struct att_head at(a);
    const int first = (int)blockIdx.y * ATT_QUERIES, warp = (int)threadIdx.x / WARP;
    const int have = a.s.tokens - first < ATT_QUERIES ? a.s.tokens - first : ATT_QUERIES;
    const int across = z.dim / ATT_TILE, C = a.s.heads * a.s.dim;
    const float *mask = a.t.mask + at.first;
    const int keys = att_last(mask, at.text), width = (keys + ATT_KEYS - 1) / ATT_KEYS * ATT_KEYS;
    DYNAMIC_SHARED(float, scores); /* then the probabilities, then the result */
    const size_t smem = (size_t)ATT_QUERIES * (z.lds > z.ldd ? z.lds : z.ldd);
    float *q = scores + smem, *kv = q + z.queries;
    att_load<V>(q, z.ldd, ATT_QUERIES, (const float *)a.q + at.q + (size_t)first * C, (size_t)C, have, a.s.dim);
    for (int l = 0; l < width; l += ATT_KEYS) {
        __syncthreads();
        att_load<V>(kv, z.ldd, ATT_KEYS, (const float *)a.k + at.caption(a, a.ldk) + (size_t)l * a.ldk, (size_t)a.ldk,
                    keys - l, a.s.dim);
        __syncthreads();
        att_scores(scores + l, z.lds, q, kv, z);
    }
    __syncthreads();
    for (int r = warp; r < have; r += ATT_WARPS)
        att_softmax(scores + (size_t)r * z.lds, a.kept + 2 * (at.rows + first + r), mask, 1.0f / sqrtf((float)a.s.dim),
                    keys, width);
    att_sum sum[ATT_EACH];
    for (int l = 0; l < width; l += ATT_KEYS) {
        __syncthreads();
        att_load<V>(kv, z.ldd, ATT_KEYS, (const float *)a.v + at.caption(a, a.ldv) + (size_t)l * a.ldv, (size_t)a.ldv,
                    keys - l, a.s.dim);
        __syncthreads();
        for (int i = 0; i < ATT_EACH; i++) {
            const int tile = warp + i * ATT_WARPS, r = tile / across * ATT_TILE;
            for (int k = 0; r < ATT_QUERIES && k < ATT_KEYS; k += ATT_TILE)
                sum[i].add<false, false>(scores + (size_t)r * z.lds + l + k, z.lds,
                                         kv + k * z.ldd + tile % across * ATT_TILE, z.ldd);
        }
    }
    __syncthreads();
    for (int i = 0; i < ATT_EACH; i++) {
        const int tile = warp + i * ATT_WARPS, r = tile / across * ATT_TILE;
        if (r < ATT_QUERIES)
            sum[i].store(scores + (size_t)r * z.ldd + tile % across * ATT_TILE, z.ldd);
    }
    __syncthreads();
    att_write<V>((float *)a.out + at.q + (size_t)first * C, (size_t)C, scores, z.ldd, have, a.s.dim);
}

/* Backward: a block's tile of queries and tile of keys. */
struct att_scratch {
    float *s, *dp; /* [queries][ATT_LDS]: scores, then probabilities; gradients of probabilities, then of scores */
    float *q, *dout, *k, *v;
};

__device__ static inline struct att_scratch att_furnish(float *smem, const struct att_shape &z)
{
    struct att_scratch d;
    d.s = smem;
    d.dp = d.s + ATT_QUERIES * ATT_LDS;
    d.q = d.dp + ATT_QUERIES * ATT_LDS;
    d.dout = d.q + z.queries;
    d.k = d.dout + z.queries;
    d.v = d.k + z.keys;
    return d;
}

static size_t att_desk_bytes(const struct att_shape &z)
{
    return 2 * (ATT_QUERIES * ATT_LDS + z.queries + z.keys) * sizeof(float);
}

/* Scores of the loaded queries and keys, and the gradients of their probabilities. */
__device__ static inline void att_both(const struct att_scratch &d, const struct att_shape &z)
{
    __syncthreads();
    att_scores(d.s, ATT_LDS, d.q, d.k, z);
    att_scores(d.dp, ATT_LDS, d.dout, d.v, z);
    __syncthreads();
}

/* The probability of a query and a key, from its score. */
__device__ static inline float att_prob(float score, const struct att_args &a, size_t row, float mask)
{
    const float s = score * (1.0f / sqrtf((float)a.s.dim)) + (mask - 1.0f) * ATT_MASKED;
    return expf(s - a.kept[2 * row]) * a.kept[2 * row + 1];
}

/* delta[row] += sum over these keys of p dp: a warp per row. The sum over keys of
 * p (dp - delta) is then zero up to rounding; dout . out of rounded numbers would not give that. */
__device__ static inline void att_delta(float *delta, const struct att_scratch &d, const struct att_args &a,
                                        const struct att_head &at, int first, int l, int keys)
{
    const float *mask = a.t.mask + at.first + l;
    const int lane = (int)threadIdx.x % WARP, n = keys - l;
    for (int r = (int)threadIdx.x / WARP; r < ATT_QUERIES; r += ATT_WARPS) {
        float sum = 0;
        if (first + r < a.s.tokens)
            for (int k = lane; k < ATT_KEYS && k < n; k += WARP)
                sum += att_prob(d.s[r * ATT_LDS + k], a, at.rows + first + r, mask[k]) *
                       d.dp[r * ATT_LDS + k];
        sum = warp_sum(sum);
        if (lane == 0)
            delta[r] += sum;
    }
}

/* Probabilities and gradients of scores of the queries from `first` and the keys from `l`, in place. */
__device__ static inline void att_slopes(const struct att_scratch &d, const struct att_args &a,
                                         const struct att_head &at, const float *delta, int first, int l, int keys)
{
    const float *mask = a.t.mask + at.first, scale = 1.0f / sqrtf((float)a.s.dim);
    for (int i = (int)threadIdx.x; i < ATT_QUERIES * ATT_KEYS; i += ATT_BLOCK) {
        const int r = i / ATT_KEYS, k = i % ATT_KEYS, to = r * ATT_LDS + k;
        float p = 0, ds = 0;
        if (first + r < a.s.tokens && l + k < keys) {
            p = att_prob(d.s[to], a, at.rows + first + r, mask[l + k]);
            ds = p * (d.dp[to] - delta[r]) * scale;
        }
        d.s[to] = p;
        d.dp[to] = ds;
    }
    __syncthreads();
}

template <int V>
__device__ static inline void att_load_queries(const struct att_scratch &d, const struct att_args &a,
                                               const struct att_head &at, const struct att_shape &z, int first)
{
    const int have = a.s.tokens - first, C = a.s.heads * a.s.dim;
    const size_t from = at.q + (size_t)first * C;
    att_load<V>(d.q, z.ldd, ATT_QUERIES, (const float *)a.q + from, (size_t)C, have, a.s.dim);
    att_load<V>(d.dout, z.ldd, ATT_QUERIES, (const float *)a.dout + from, (size_t)C, have, a.s.dim);
}

template <int V>
__device__ static inline void att_load_keys(const struct att_scratch &d, const struct att_args &a,
                                            const struct att_head &at, const struct att_shape &z, int l, int keys)
{
    att_load<V>(d.k, z.ldd, ATT_KEYS, (const float *)a.k + at.caption(a, a.ldk) + (size_t)l * a.ldk, (size_t)a.ldk,
                keys - l, a.s.dim);
    att_load<V>(d.v, z.ldd, ATT_KEYS, (const float *)a.v + at.caption(a, a.ldv) + (size_t)l * a.ldv, (size_t)a.ldv,
                keys - l, a.s.dim);
}

/* dq = ds k: a block owns queries and streams the keys twice, the first time for delta. */
template <int V> __global__ void __launch_bounds__(ATT_BLOCK, 2)
att_query_back_kernel(struct att_args a, struct att_shape z)
{
    DYNAMIC_SHARED(float, smem);
    const struct att_scratch d = att_furnish(smem, z);
    const struct att_head at(a);
    const int first = (int)blockIdx.y * ATT_QUERIES, warp = (int)threadIdx.x / WARP;
    const int have = a.s.tokens - first < ATT_QUERIES ? a.s.tokens - first : ATT_QUERIES;
    const int across = z.dim / ATT_TILE, C = a.s.heads * a.s.dim;
    const int keys = att_last(a.t.mask + at.first, at.text);
    __shared__ float delta[ATT_QUERIES];
    att_sum sum[ATT_EACH];
    if (threadIdx.x < ATT_QUERIES)
        delta[threadIdx.x] = 0;
    att_load_queries<V>(d, a, at, z, first);
    for (int l = 0; l < keys; l += ATT_KEYS) {
        att_load_keys<V>(d, a, at, z, l, keys); /* those before were read before the last barrier */
        att_both(d, z);
        att_delta(delta, d, a, at, first, l, keys);
    }
    for (int l = 0; l < keys; l += ATT_KEYS) {
        __syncthreads();
        if (keys > ATT_KEYS)
            att_load_keys<V>(d, a, at, z, l, keys);
        att_both(d, z);
        att_slopes(d, a, at, delta, first, l, keys);
        for (int i = 0; i < ATT_EACH; i++) {
            const int tile = warp + i * ATT_WARPS, r = tile / across * ATT_TILE;
            for (int k = 0; r < ATT_QUERIES && k < ATT_KEYS; k += ATT_TILE)
                sum[i].add<false, false>(d.dp + r * ATT_LDS + k, ATT_LDS, d.k + k * z.ldd + tile % across * ATT_TILE,
                                         z.ldd);
        }
    }
    if ((int)threadIdx.x < have)
        a.delta[at.rows + first + threadIdx.x] = delta[threadIdx.x];
    float *to = d.q; /* queries are no longer read: the result overwrites them */
    for (int i = 0; i < ATT_EACH; i++) {
        const int tile = warp + i * ATT_WARPS, r = tile / across * ATT_TILE;
        if (r < ATT_QUERIES)
            sum[i].store(to + r * z.ldd + tile % across * ATT_TILE, z.ldd);
    }
    __syncthreads();
    att_write<V>((float *)a.dq + at.q + (size_t)first * C, (size_t)C, to, z.ldd, have, a.s.dim);
}

/* A tile [keys, dim] of sums, through shared memory to rows of dk or dv. */
template <int V>
__device__ static inline void att_put_keys(float *to, int ld, float *smem, const att_sum *sum,
                                           const struct att_shape &z, int have, int dim)
{
    const int across = z.dim / ATT_TILE, warp = (int)threadIdx.x / WARP;
    __syncthreads();
    for (int i = 0; i < ATT_KEY_EACH; i++) {
        const int tile = warp + i * ATT_WARPS, r = tile / across * ATT_TILE;
        if (r < ATT_KEYS)
            sum[i].store(smem + r * z.ldd + tile % across * ATT_TILE, z.ldd);
    }
    __syncthreads();
    att_write<V>(to, (size_t)ld, smem, z.ldd, have, dim);
}

/* dv = p^T dout, dk = ds^T q: a block owns keys and streams the queries. */
template <int V> __global__ void __launch_bounds__(ATT_BLOCK, 2)
att_key_back_kernel(struct att_args a, struct att_shape z)
{
    DYNAMIC_SHARED(float, smem);
    const struct att_scratch d = att_furnish(smem, z);
    const struct att_head at(a);
    const int l = (int)blockIdx.y * ATT_KEYS, warp = (int)threadIdx.x / WARP;
    const int have = at.text - l < ATT_KEYS ? at.text - l : ATT_KEYS, across = z.dim / ATT_TILE;
    const int keys = att_last(a.t.mask + at.first, at.text);
    att_sum dv[ATT_KEY_EACH], dk[ATT_KEY_EACH];
    att_load_keys<V>(d, a, at, z, l, keys);
    for (int first = 0; l < keys && first < a.s.tokens; first += ATT_QUERIES) {
        __syncthreads();
        att_load_queries<V>(d, a, at, z, first);
        att_both(d, z);
        att_slopes(d, a, at, a.delta + at.rows + first, first, l, keys);
        for (int i = 0; i < ATT_KEY_EACH; i++) {
            const int tile = warp + i * ATT_WARPS, r = tile / across * ATT_TILE;
            const int c = tile % across * ATT_TILE;
            for (int k = 0; r < ATT_KEYS && k < ATT_QUERIES; k += ATT_TILE)
                dv[i].add<true, false>(d.s + k * ATT_LDS + r, ATT_LDS, d.dout + k * z.ldd + c, z.ldd);
            for (int k = 0; r < ATT_KEYS && k < ATT_QUERIES; k += ATT_TILE)
                dk[i].add<true, false>(d.dp + k * ATT_LDS + r, ATT_LDS, d.q + k * z.ldd + c, z.ldd);
        }
    }
    const size_t to = at.caption(a, a.lddkv) + (size_t)l * a.lddkv;
    att_put_keys<V>((float *)a.dv + to, a.lddkv, d.q, dv, z, have, a.s.dim);
    att_put_keys<V>((float *)a.dk + to, a.lddkv, d.q, dk, z, have, a.s.dim);
}

/* `bytes` of dynamic shared memory beside the kernel's fixed arrays. */
static bool att_fits(size_t bytes, int text)
{
    bytes += 512;
    if (bytes > device.shared_most && device.state == KERN_OK) {
        device.state = KERN_FAULT;
        snprintf(device.why, sizeof(device.why),
                 "captions of %d tokens do not fit into shared memory", text);
    }
    return bytes <= device.shared_most;
}

/* The same for the kernels in bf16: each head has keys of its own. */
static struct flash_args att_flash(const struct att_args &a)
{
    struct flash_args f = {};
    f.out = a.out, f.dq = a.dq, f.dk = a.dk, f.dv = a.dv, f.kept = a.kept, f.q = a.q, f.k = a.k, f.v = a.v;
    f.dout = a.dout, f.mask = a.t.mask, f.ldk = a.ldk, f.ldv = a.ldv, f.lddkv = a.lddkv;
    f.t = {a.t.first, a.t.most, a.s.heads}, f.s = a.s;
    return f;
}

static void cuda_cross_attn(void *out, float *kept, const void *q, const void *k, int ldk,
                            const void *v, int ldv, struct kern_text t, struct kern_heads s)
{
    struct att_args a = {};
    a.out = out, a.kept = kept, a.q = q, a.k = k, a.v = v;
    a.ldk = ldk, a.ldv = ldv, a.t = t, a.s = s;
    const dim3 grid((unsigned)(s.batch * s.heads), tiles((size_t)s.tokens, ATT_QUERIES));
    if (device.precision == KERN_BF16) {
        const struct flash_args f = att_flash(a);
        flash_forward("cross_attn", f);
        return;
    }
    for_fp32(by_four({(size_t)s.dim, (size_t)ldk, (size_t)ldv}, out, q, k, v), [&](auto fours) {
        const struct att_shape z = att_shape(s.dim, t.most);
        const size_t bytes = sizeof(float) * ATT_QUERIES * (size_t)(z.lds > z.ldd ? z.lds : z.ldd) +
                             sizeof(float) * (z.queries + z.keys);
        if (att_fits(bytes, t.most))
            launch("cross_attn", att_kernel<decltype(fours)::value>, grid, dim3(ATT_BLOCK), bytes, a, z);
    });
}

static void cuda_cross_attn_back(void *dq, void *dk, void *dv, int lddkv, float *work,
                                 const void *dout, const float *kept, const void *q,
                                 const void *k, int ldk, const void *v, int ldv,
                                 struct kern_text t, struct kern_heads s)
{
    const unsigned heads = (unsigned)(s.batch * s.heads);
    struct att_args a = {};
    a.dq = dq, a.dk = dk, a.dv = dv, a.kept = (float *)(uintptr_t)kept, a.delta = work;
    a.q = q, a.k = k, a.v = v, a.dout = dout;
    a.ldk = ldk, a.ldv = ldv, a.lddkv = lddkv, a.t = t, a.s = s;
    if (device.precision == KERN_BF16) {
        struct flash_args f = att_flash(a);
        if (flash_room(&f))
            flash_backward("cross_attn_back", f);
        return;
    }
    for_fp32(by_four({(size_t)s.dim, (size_t)ldk, (size_t)ldv, (size_t)lddkv}, dq, dk, dv, dout, q, k, v),
             [&](auto fours) {
        const struct att_shape z = att_shape(s.dim, t.most);
        const size_t bytes = att_desk_bytes(z);
        if (!att_fits(bytes, t.most))
            return;
        launch("cross_attn_back", att_query_back_kernel<decltype(fours)::value>,
               dim3(heads, tiles((size_t)s.tokens, ATT_QUERIES)), dim3(ATT_BLOCK), bytes, a, z);
        launch("cross_attn_back", att_key_back_kernel<decltype(fours)::value>,
               dim3(heads, tiles((size_t)t.most, ATT_KEYS)), dim3(ATT_BLOCK), bytes, a, z);
    });
}

static void fill_crossattn(struct kern_ops *ops)
{
    ops->cross_attn_dim = ATT_DIM;
    ops->cross_attn = cuda_cross_attn;
    ops->cross_attn_back = cuda_cross_attn_back;
}
