/* SPDX-License-Identifier: Apache-2.0 */
/* causal_mma.cuh - causal attention of grouped heads on tensor cores, for bf16; part of causal.cu
 *
 * Like flash.cu, but with heads of up to 256 channels, or 512 in two slices of the result: sums then take half of the
 * registers, so the queries stay in shared memory, from where each product reads them. Keys and values are converted to
 * bf16 once, in advance, because many blocks read each row. Tiles that a block or a warp does not see are skipped.
 */
#ifndef KERNELS_CAUSAL_MMA_CUH
#define KERNELS_CAUSAL_MMA_CUH

#include "kernels/flash.cuh"

enum {
    CAUSAL_QUERIES = CAUSAL_WARPS * 16, /* of a block */
    CAUSAL_TILE = 32,                   /* keys at a time: queries and two stages fit into 99 KB with 256 channels */
    CAUSAL_SLICE = 256                  /* channels of the result whose sums fit into registers */
};

/* Rows in shared memory; a warp has 16 queries. */
template <int CHANNELS> struct causal_lines : flash_shape<CHANNELS> {
    enum { DOWN = 1 };
};

template <int CHANNELS> struct causal_shape {
    typedef causal_lines<CHANNELS> Q; /* and k */
    typedef causal_lines<(CHANNELS > CAUSAL_SLICE ? CAUSAL_SLICE : CHANNELS)> V;
    enum { SLICES = Q::DIM / V::DIM, KEYS = CAUSAL_TILE * Q::LD, STAGE = KEYS + CAUSAL_TILE * V::LD,
           FIRST_STAGE = CAUSAL_QUERIES * Q::LD };
    static constexpr size_t bytes = sizeof(bf16) * (FIRST_STAGE + 2 * STAGE);
};
static_assert(causal_shape<CAUSAL_SLICE>::bytes <= 99 * 1024, "what a block of compute capability 8.6 and 8.9 may have");

struct causal_mma_args {
    float             *out;
    const float       *q, *v, *mask;
    const bf16        *keys, *values; /* [batch * keys, kv_heads, channels of the shape] */
    bool               fours;         /* rows lie on 16 bytes */
    struct kern_causal s;
};

/* Four numbers of a row of which `left` are left; zeros after them. */
__device__ static inline void causal_four(float (&x)[4], const float *from, int left, bool fours)
{
    for (int i = 0; i < 4; i++)
        x[i] = 0;
    if (fours && left > 0)
        load<4>(x, from);
    else
        for (int i = 0; i < 4; i++)
            if (i < left)
                x[i] = from[i];
}

/* Rows of keys (blockIdx.y 0) or values become rows of CHANNELS numbers. */
template <int CHANNELS>
__global__ void causal_narrow_kernel(bf16 *to, const float *k, const float *v, size_t rows, int dim, bool fours)
{
    const float *from = blockIdx.y ? v : k;
    to += blockIdx.y * rows * CHANNELS;
    for EACH(i, rows * (CHANNELS / 4)) {
        const size_t row = i / (CHANNELS / 4);
        const int c = (int)(i % (CHANNELS / 4)) * 4;
        float x[4];
        causal_four(x, from + row * dim + c, dim - c, fours);
        store<4>(to + i * 4, x);
    }
}

/* Where the queries of a block begin, and which keys they see together. */
struct causal_block {
    int    b, head, group, first, position, begin, end; /* position: of query `first` among the keys */
    size_t ld, q;                                       /* numbers from a query to the next; where the first one lies */
    __device__ explicit causal_block(const struct kern_causal &s)
    {
        b = (int)blockIdx.y / s.heads, head = (int)blockIdx.y % s.heads, group = head / (s.heads / s.kv_heads);
        first = (int)(gridDim.x - 1 - blockIdx.x) * CAUSAL_QUERIES; /* blocks that see most keys begin first */
        position = s.keys - s.queries + first;
        begin = !s.whole && s.window && position >= s.window ? (position - s.window + 1) / CAUSAL_TILE * CAUSAL_TILE : 0;
        end = s.whole || position + CAUSAL_QUERIES > s.keys ? s.keys : position + CAUSAL_QUERIES;
        ld = (size_t)s.heads * s.dim;
        q = ((size_t)b * s.queries + first) * ld + (size_t)head * s.dim;
    }
    /* Row l of keys or values, of `channels` each. */
    __device__ size_t key(const struct kern_causal &s, int l, int channels) const
    {
        return (((size_t)b * s.keys + l) * s.kv_heads + group) * channels;
    }
};

/* Which keys the queries of a warp see, at positions first .. last. */
struct causal_view {
    const struct kern_causal &s;
    const float              *mask;
    int                       first, last, hole; /* hole: the first key that is masked */
    __device__ causal_view(const struct causal_mma_args &a, const struct causal_block &at, int row) : s(a.s)
    {
        float before = (float)-at.end;
        mask = s.whole ? NULL : a.mask + (size_t)at.b * s.keys;
        first = at.position + row, last = first + 15;
        for (int l = at.begin + (int)threadIdx.x % WARP; mask && l < at.end; l += WARP)
            before = mask[l] > 0 ? before : fmaxf(before, (float)-l);
        hole = (int)-warp_max(before);
    }
    /* These are about the tile that begins at key l. */
    __device__ bool none(int l) const
    {
        return !s.whole && (l > last || (s.window && first - (l + CAUSAL_TILE - 1) >= s.window));
    }
    __device__ bool all(int l) const
    {
        const int end = l + CAUSAL_TILE;
        return end <= s.keys && (s.whole || (end <= first + 1 && end <= hole && (!s.window || last - l < s.window)));
    }
    /* Masks the scores of unseen keys, of 16 from l on. */
    __device__ void hide(float (&x)[2][4], int l) const
    {
        const int lane = (int)threadIdx.x % WARP;
        UNROLLED
        for (int i = 0; i < 8; i++) {
            const int key = l + i / 4 * 8 + lane % 4 * 2 + i % 2, position = first + lane / 4 + i / 2 % 2 * 8;
            if (key >= s.keys || !causal_sees(s, mask, position, key))
                x[i / 4][i % 4] = FLASH_NEVER;
        }
    }
};

/* Scores become exponents of two. cap tanh(x / cap) = cap - 2 cap / (1 + e^(2 x / cap)), of which a softmax does not
 * need the first term. */
struct causal_curve {
    float unit, cap;
    __device__ explicit causal_curve(const struct kern_causal &s)
    {
        unit = s.scale * FLASH_LOG2E * (s.cap > 0 ? 2 / s.cap : 1.0f);
        cap = s.cap > 0 ? -2 * s.cap * FLASH_LOG2E : 0.0f;
    }
    __device__ float of(float x) const
    {
        x *= unit;
        return cap != 0 ? cap * mma_inverse(1.0f + mma_exp2(x)) : x;
    }
};

/* A warp's flash_down() of its queries, and the sums of the tiles so far. */
template <class S> struct causal_sums {
    shared_at                       q;
    struct flash_softmax<typename S::V> sums;
    __device__ explicit causal_sums(const bf16 *smem) : sums(0)
    {
        q = flash_down<typename S::Q>(smem) + (int)threadIdx.x / WARP * 16 * S::Q::ROW;
        sums.unit = 1;
    }

    /* x = q k^T of a tile */
    __device__ void dot(float (&x)[2][1][2][4], shared_at keys) const
    {
        flash_zero(x[0][0]);
        flash_zero(x[1][0]);
        UNROLLED
        for (int k = 0; k < S::Q::STEPS; k++) {
            uint32_t a[4], b[4];
            mma_load<false>(a, q + k * 32);
            UNROLLED
            for (int i = 0; i < 2; i++) {
                mma_load<false>(b, keys + i * 16 * S::Q::ROW + k * 32);
                mma_add(x[i][0][0], a, b[0], b[1]);
                mma_add(x[i][0][1], a, b[2], b[3]);
            }
        }
    }

    __device__ void take(shared_at keys, shared_at values, const struct causal_view &view,
                         const struct causal_curve &curve, int l)
    {
        float x[2][1][2][4];
        dot(x, keys);
        UNROLLED
        for (int i = 0; i < 16; i++)
            x[i / 8][0][i / 4 % 2][i % 4] = curve.of(x[i / 8][0][i / 4 % 2][i % 4]);
        if (!view.all(l))
            for (int i = 0; i < 2; i++)
                view.hide(x[i][0], l + i * 16);
        sums.template meet<2>(x);
        UNROLLED
        for (int i = 0; i < 2; i++) {
            uint32_t p[1][4];
            flash_narrow(p[0], x[i][0]);
            flash_spread<typename S::V, 1>(sums.out, p, values + i * 16 * S::V::ROW);
        }
    }
};

/* A query that sees nothing gets the mean of all values. */
__device__ static inline void causal_average(float *to, const struct causal_mma_args &a, const struct causal_block &at,
                                             int from, int n)
{
    const struct kern_causal &s = a.s;
    for (int c = (int)threadIdx.x % 4; c < n; c += 4) {
        float sum = 0;
        for (int j = 0; j < s.keys; j++)
            sum += a.v[at.key(s, j, s.dim) + from + c];
        to[c] = sum / (float)s.keys;
    }
}

/* Channels from `from` on of 16 queries, the first of them `row` of the block. */
template <class S>
__device__ static inline void causal_give(struct flash_softmax<typename S::V> &sums, const struct causal_mma_args &a,
                                          const struct causal_block &at, int row, int from)
{
    const int lane = (int)threadIdx.x % WARP, n = a.s.dim - from < S::V::DIM ? a.s.dim - from : S::V::DIM;
    UNROLLED
    for (int half = 0; half < 2; half++) {
        const float all = flash_sum(sums.sum[0][half]), by = 1.0f / all;
        const int mine = row + lane / 4 + half * 8;
        float *to = a.out + at.q + (size_t)mine * at.ld + from;
        if (at.first + mine >= a.s.queries)
            continue;
        if (sums.less[0][half] == -FLASH_NEVER && all > 0) { /* not a NaN */
            causal_average(to, a, at, from, n);
            continue;
        }
        UNROLLED
        for (int i = 0; i < S::V::TILES; i++) {
            const int c = i * 8 + lane % 4 * 2;
            const float x[2] = {sums.out[0][i][half * 2] * by, sums.out[0][i][half * 2 + 1] * by};
            if (a.fours && c < n)
                store<2>(to + c, x);
            else
                for (int k = 0; k < 2; k++)
                    if (c + k < n)
                        to[c + k] = x[k];
        }
    }
}

template <class S>
__device__ static inline void causal_fetch(bf16 *smem, const struct causal_mma_args &a, const struct causal_block &at)
{
    const int packs = S::Q::DIM / 4;
    for (int i = (int)threadIdx.x; i < CAUSAL_QUERIES * packs; i += CAUSAL_WARPS * WARP) {
        const int r = i / packs, c = i % packs * 4;
        float x[4];
        causal_four(x, a.q + at.q + (size_t)r * at.ld + c, at.first + r < a.s.queries ? a.s.dim - c : 0, a.fours);
        store<4>(smem + r * S::Q::LD + c, x);
    }
}

template <int CHANNELS>
__global__ void __launch_bounds__(CAUSAL_WARPS *WARP, 2) flash_causal_kernel(struct causal_mma_args a)
{
    typedef causal_shape<CHANNELS> S;
    DYNAMIC_SHARED(bf16, smem);
    const struct causal_block at(a.s);
    const int row = (int)threadIdx.x / WARP * 16, from = (int)blockIdx.z * S::V::DIM;
    const struct causal_view view(a, at, row);
    const struct causal_curve curve(a.s);
    const int ld = a.s.kv_heads * CHANNELS;
    const bf16 *keys = a.keys + at.key(a.s, 0, CHANNELS), *values = a.values + at.key(a.s, 0, CHANNELS) + from;
    bf16 *stages = smem + S::FIRST_STAGE;
    const auto fetch = [&](int to, int l) {
        flash_take<typename S::Q, CAUSAL_WARPS, 8, CAUSAL_TILE>(stages, to, keys + (int64_t)l * ld, ld, a.s.keys - l,
                                                                CHANNELS);
        flash_take<typename S::V, CAUSAL_WARPS, 8, CAUSAL_TILE>(stages, to + S::KEYS, values + (int64_t)l * ld, ld,
                                                                a.s.keys - l, S::V::DIM);
    };
    struct causal_sums<S> of(smem);
    fetch(0, at.begin);
    causal_fetch<S>(smem, a, at);
    for (int l = at.begin, now = 0; l < at.end; l += CAUSAL_TILE, now = S::STAGE - now) {
        flash_arrive();
        if (l + CAUSAL_TILE < at.end)
            fetch(S::STAGE - now, l + CAUSAL_TILE);
        if (at.first + row < a.s.queries && !view.none(l))
            of.take(flash_across<typename S::Q>(stages) + now * 2,
                    flash_down<typename S::V>(stages) + (now + S::KEYS) * 2, view, curve, l);
    }
    causal_give<S>(of.sums, a, at, row, from);
}

/* false: this GPU has too little shared memory for heads with so many channels. */
template <int CHANNELS> static bool causal_mma(const struct causal_args &from)
{
    typedef causal_shape<CHANNELS> S;
    const struct kern_causal &s = from.s;
    const size_t rows = (size_t)s.batch * (size_t)s.keys * (size_t)s.kv_heads, n = rows * CHANNELS;
    const bool fours = by_four({(size_t)s.dim}, from.out, from.q, from.k, from.v);
    if (S::bytes > device.shared_most)
        return false;
    bf16 *narrow = (bf16 *)device_scratch(SCRATCH_PARTS, 2 * n * sizeof(bf16));
    if (!narrow)
        return true; /* which is recorded */
    const struct causal_mma_args a = {from.out, from.q, from.v, from.mask, narrow, narrow + n, fours, s};
    const dim3 half = grid_for(n / 4);
    launch("attend_causal", causal_narrow_kernel<CHANNELS>, dim3(half.x, 2), dim3(BLOCK), 0, narrow, from.k, from.v,
           rows, s.dim, fours);
    launch("attend_causal", flash_causal_kernel<CHANNELS>,
           dim3(tiles((size_t)s.queries, CAUSAL_QUERIES), (unsigned)(s.batch * s.heads), S::SLICES),
           dim3(CAUSAL_WARPS * WARP), S::bytes, a);
    return true;
}

/* True if tensor cores have done the work. */
static bool causal_on_tensor_cores(const struct causal_args &a)
{
    if (device.precision != KERN_BF16)
        return false;
    return a.s.dim <= 64 ? causal_mma<64>(a) : a.s.dim <= CAUSAL_SLICE ? causal_mma<CAUSAL_SLICE>(a) : causal_mma<512>(a);
}

#endif
