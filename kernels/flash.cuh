/* SPDX-License-Identifier: Apache-2.0 */
/* flash.cuh - softmax attention in bf16 on tensor cores: what its kernels (flash.cu) have in common
 *
 * After Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning" (2023).  A warp keeps
 * its rows, as fragments, and their sums in registers, while tiles of the other side come through shared memory, two
 * stages by turns: one is copied while the other is in use.  Scores never leave registers.  Forward and for dq a block
 * owns queries; for dk and dv keys, with all heads that share them, and two warps have the same keys: one sums dv and
 * hands its probabilities to the other, which sums dk.  Each sum has one order.
 *
 * Channels are a compile-time number: a head of fewer has zeros behind them.  Rows of shared memory are an odd number
 * of 16 bytes apart, so that ldmatrix has no bank conflicts.
 */
#ifndef KERNELS_FLASH_CUH
#define KERNELS_FLASH_CUH

#include "kernels/mma.cuh"
#include "kernels/tile.h"

struct flash_args {
    void             *out, *dq, *dk, *dv;
    float            *kept;  /* [batch, heads, tokens]: the log of the sum of a row's exponentials */
    float            *stats; /* [batch, heads, tokens, 2]: kept * log2(e), and the sum of p dp; for dk and dv */
    const void       *q, *k, *v, *dout;
    const void       *was;   /* out, which gives the sum of p dp; NULL: it is summed as p dp */
    const float      *mask;  /* a number per row of keys: (mask - 1) * 10000 is added to scores; NULL: none */
    int               ldk, ldv, lddkv;
    bool              add;   /* to dq */
    struct kern_keys  t;
    struct kern_heads s;
};

enum {
    FLASH_TILE = 64,        /* rows of the side that comes through shared memory */
    FLASH_BACK_WARPS = 8,   /* of a block backward */
    FLASH_PAIRS = 4,        /* of warps: for dk and dv of the same keys */
    FLASH_STATS = 2 * FLASH_TILE /* floats of stats of a tile */
};
#define FLASH_LOG2E 1.4426950408889634f
#define FLASH_NEVER (-1e30f) /* a score whose exponential is 0 */
#define FLASH_MASKED 10000.0f
#define FLASH_ROOM 8.0f /* doublings by which a score may exceed what it is compared with */

template <int CHANNELS> struct flash_shape {
    enum {
        DIM = CHANNELS, STEPS = (DIM + 15) / 16, /* of 16 channels */
        TILES = DIM / 8,                         /* of sums, 8 channels each */
        CHUNKS = STEPS * 2,                      /* of 16 bytes */
        LD = (CHUNKS | 1) * 8,                   /* numbers of a row in shared memory */
        ROW = LD * 2, TILE_BYTES = FLASH_TILE * ROW,
        STAGE = 2 * FLASH_TILE * LD,             /* numbers of a stage: two tiles */
        WARPS = DIM > 80 ? 4 : 8,                /* forward, of a block: two of 4 or one of 8 on a multiprocessor */
        DOWN = DIM > 112 ? 1 : 2,                /* 16 queries of a warp, once or twice */
        BESIDE = DIM > 32 ? 2 / (DIM > 80 ? DOWN : 1) : 4, /* and 16 keys at a time */
        BACK_DOWN = DIM > 80 ? 1 : 2,            /* the same for dq */
        KEY_DOWN = DIM > 72 ? 2 : 3,             /* and for dk and dv: 16 keys of a pair of warps */
        PAIR_KEYS = FLASH_PAIRS * KEY_DOWN * 16, /* of a block */
        HANDED = KEY_DOWN * 16 * 16              /* floats of p that a warp hands to the other of its pair */
    };
    static constexpr size_t bytes = sizeof(bf16) * 2 * STAGE;
    static constexpr size_t key_bytes = bytes + sizeof(float) * 2 * (FLASH_STATS + FLASH_PAIRS * HANDED);
};

/* The largest power of two up to n. */
__host__ __device__ static constexpr int flash_power(int n)
{
    return n < 2 ? 1 : 2 * flash_power(n / 2);
}

/* Where the queries and the keys of a sample's head begin. */
struct flash_head {
    int    keys, first, group; /* rows of keys, the first of them, and the key head */
    size_t q, rows;            /* offsets in q and out; in kept and stats */
    __device__ flash_head(const struct flash_args &a, int b, int h)
    {
        first = text_first(a.t.first, a.t.most, b);
        keys = text_first(a.t.first, a.t.most, b + 1) - first;
        group = h / (a.s.heads / a.t.heads);
        q = (size_t)b * a.s.tokens * a.s.heads * a.s.dim + (size_t)h * a.s.dim;
        rows = ((size_t)b * a.s.heads + h) * a.s.tokens;
    }
    __device__ size_t key(const struct flash_args &a, int ld, int l) const
    {
        return (size_t)(first + l) * ld + (size_t)group * a.s.dim;
    }
};

/* Which keys of a sample count. If all are masked, none is: the mask would lower all scores equally. */
struct flash_seen {
    const float *mask;
    int          keys, whole; /* keys after the last that counts are skipped; `whole`: so many are not masked */
    float        masked;
    __device__ flash_seen(const struct flash_args &a, const struct flash_head &at)
    {
        float last = 0, hole = (float)-at.keys;
        mask = a.mask ? a.mask + at.first : NULL;
        masked = FLASH_MASKED * sqrtf((float)a.s.dim);
        for (int l = (int)threadIdx.x % WARP; mask && l < at.keys; l += WARP) {
            const float m = mask[l];
            last = m != 0.0f ? (float)(l + 1) : last;
            hole = m != 1.0f ? fmaxf(hole, (float)-l) : hole;
        }
        last = warp_max(last);
        hole = warp_max(hole);
        mask = last > 0 ? mask : NULL;
        keys = mask ? (int)last : at.keys;
        whole = mask && (int)-hole < keys ? (int)-hole : keys;
    }
    /* What is added to the scores of key l, before they are scaled. */
    __device__ float bias(int l) const
    {
        return l >= keys ? FLASH_NEVER : mask ? (mask[l] - 1.0f) * masked : 0.0f;
    }
};

/* --- tiles ----------------------------------------------------------------------------------- */

/* Zeros after the channels of a head, in both stages; copies do not overwrite them. */
template <class S, int WARPS> __device__ static inline void flash_clear(bf16 *smem, int dim)
{
    const int more = S::CHUNKS - dim / 8;
    const float zeros[8] = {0};
    for (int i = (int)threadIdx.x; i < 4 * FLASH_TILE * more; i += WARPS * WARP)
        store<8>(smem + i / more * S::LD + dim + i % more * 8, zeros);
}

/* Starts to copy ROWS rows, of which `have` exist. PACK: 8 numbers at once, or 1 where alignment demands it.
 * Places in shared memory are numbers from its beginning, here and below. */
template <class S, int WARPS, int PACK, int ROWS>
__device__ static inline void flash_take(bf16 *smem, int to, const bf16 *from, int ld, int have, int dim)
{
    const int thread = (int)threadIdx.x;
    if constexpr (PACK == 8) {
        constexpr int at_once = flash_power(WARPS * WARP / S::CHUNKS);
        constexpr int lanes = WARPS * WARP / (S::LD / 8) < at_once ? S::CHUNKS : S::LD / 8; /* of a row */
        const int r = thread / lanes, c = thread % lanes * 8, left = have - r;
        if (r >= at_once || c >= dim)
            return;
        const shared_at at = mma_place(smem) + (to + r * S::LD + c) * 2;
        const int64_t next = (int64_t)at_once * ld;
        from += (int64_t)r * ld + c;
        mma_each<ROWS / at_once>([&](auto i) {
            constexpr int row = decltype(i)::value * at_once;
            copy_start<16, row * S::ROW>(at, from, row < left);
            from += next;
        });
    } else {
        for (int i = thread; i < ROWS * S::STEPS * 16; i += WARPS * WARP) {
            const int r = i / (S::STEPS * 16), c = i % (S::STEPS * 16);
            smem[to + r * S::LD + c] = r < have && c < dim ? from[(int64_t)r * ld + c] : narrow<bf16>(0.0f);
        }
    }
}

/* All copies have arrived, for all threads, and none still reads the previous contents. */
__device__ static inline void flash_arrive(void)
{
    copy_commit();
    copy_wait<0>();
    __syncthreads();
}

/* This lane's place in 16 rows for mma_load(): of rows [m][k], or [k][n] transposed; and of rows [n][k]. */
template <class S> __device__ static inline shared_at flash_down(const bf16 *smem)
{
    const int lane = (int)threadIdx.x % WARP;
    return mma_place(smem) + lane % 16 * S::ROW + lane / 16 * 16;
}

template <class S> __device__ static inline shared_at flash_across(const bf16 *smem)
{
    const int lane = (int)threadIdx.x % WARP;
    return mma_place(smem) + (lane % 8 + lane / 16 * 8) * S::ROW + lane / 8 % 2 * 16;
}

/* Loads 16 DOWN SHARES rows of the block through shared memory; this warp gets share `mine` of them as fragments, or
 * none if `mine` is not below SHARES. */
template <class S, int WARPS, int PACK, int DOWN, int SHARES = WARPS>
__device__ static inline void flash_fetch(uint32_t (&to)[DOWN][S::STEPS][4], bf16 *smem, const void *from, int ld,
                                          int have, int dim, unsigned mine = threadIdx.x / WARP)
{
    flash_take<S, WARPS, PACK, SHARES * DOWN * 16>(smem, 0, (const bf16 *)from, ld, have, dim);
    flash_arrive();
    UNROLLED
    for (int m = 0; m < DOWN && mine < SHARES; m++) {
        const shared_at at = flash_down<S>(smem) + ((int)mine * DOWN + m) * 16 * S::ROW;
        UNROLLED
        for (int k = 0; k < S::STEPS; k++)
            mma_load<false>(to[m][k], at + k * 32);
    }
    __syncthreads();
}

/* b of 16 rows [n][k], channels of step k: of which `at` is flash_across() and `down` flash_down(). */
template <class S, int K> __device__ static inline void flash_load(uint32_t (&b)[4], shared_at at, shared_at down)
{
    if constexpr (K * 2 + 1 < S::TILES)
        return mma_load<false, K * 32>(b, at);
    uint32_t half[2];
    mma_load<false, K * 32>(half, down);
    b[0] = half[0], b[2] = half[1];
    b[1] = b[3] = 0;
}

/* c += a b^T, b as above */
template <class S, int DOWN>
__device__ static inline void flash_dot(float (&c)[DOWN][2][4], const uint32_t (&a)[DOWN][S::STEPS][4], shared_at at,
                                        shared_at down)
{
    mma_each<S::STEPS>([&](auto step) {
        constexpr int k = decltype(step)::value;
        uint32_t b[4];
        flash_load<S, k>(b, at, down);
        UNROLLED
        for (int m = 0; m < DOWN; m++) {
            mma_add(c[m][0], a[m][k], b[0], b[1]);
            mma_add(c[m][1], a[m][k], b[2], b[3]);
        }
    });
}

/* c += p b, b: 16 rows, of which `at` is flash_down() */
template <class S, int DOWN>
__device__ static inline void flash_spread(float (&c)[DOWN][S::TILES][4], const uint32_t (&p)[DOWN][4], shared_at at)
{
    mma_each<(S::TILES + 1) / 2>([&](auto i) {
        constexpr int n = decltype(i)::value * 2, many = n + 1 < S::TILES ? 4 : 2;
        uint32_t b[many];
        mma_load<true, n * 16>(b, at);
        UNROLLED
        for (int m = 0; m < DOWN; m++) {
            mma_add(c[m][n], p[m], b[0], b[1]);
            if constexpr (many == 4)
                mma_add(c[m][n + 1], p[m], b[2], b[3]);
        }
    });
}

/* Sums side by side as the fragment of a factor. */
__device__ static inline void flash_narrow(uint32_t (&to)[4], const float (&c)[2][4])
{
    UNROLLED
    for (int i = 0; i < 4; i++)
        to[i] = mma_pair(c[i / 2][i % 2 * 2], c[i / 2][i % 2 * 2 + 1]);
}

template <int N> __device__ static inline void flash_zero(float (&c)[N][4])
{
    UNROLLED
    for (int i = 0; i < 4 * N; i++)
        c[i / 4][i % 4] = 0;
}

/* The scores of 16 N keys from l before any product is added. */
template <int N, int DOWN>
__device__ static inline void flash_begin(float (&c)[N][DOWN][2][4], const struct flash_seen &seen, int l)
{
    UNROLLED
    for (int i = 0; i < N * DOWN; i++)
        flash_zero(c[i / DOWN][i % DOWN]);
    if (l + 16 * N <= seen.whole)
        return;
    UNROLLED
    for (int i = 0; i < 4 * N; i++) {
        const float bias = seen.bias(l + i / 2 * 8 + (int)threadIdx.x % 4 * 2 + i % 2);
        UNROLLED
        for (int m = 0; m < DOWN; m++)
            c[i / 4][m][i / 2 % 2][i % 2] = c[i / 4][m][i / 2 % 2][i % 2 + 2] = bias;
    }
}

/* Over the four lanes that share a row. */
__device__ static inline float flash_sum(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

__device__ static inline float flash_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

/* The 16 rows of a warp as bf16 into shared memory, times by0 and, 8 rows on, by1; where that is 0, zeros whatever was
 * summed. */
template <class S>
__device__ static inline void flash_lay(bf16 *rows, const float (&c)[S::TILES][4], float by0, float by1)
{
    const int lane = (int)threadIdx.x % WARP;
    UNROLLED
    for (int i = 0; i < 2 * S::TILES; i++) {
        const float by = i % 2 ? by1 : by0;
        float x[2];
        for (int k = 0; k < 2; k++)
            x[k] = by != 0.0f ? c[i / 2][i % 2 * 2 + k] * by : 0.0f;
        store<2>(rows + (lane / 4 + i % 2 * 8) * S::LD + i / 2 * 8 + lane % 4 * 2, x);
    }
    __syncwarp();
}

/* Writes those of them that exist to global memory. */
template <class S, int PACK>
__device__ static inline void flash_give(bf16 *to, size_t ld, const bf16 *rows, int have, int dim, bool add)
{
    constexpr int packs = S::CHUNKS * 8 / PACK;
    for (int i = (int)threadIdx.x % WARP; i < 16 * packs; i += WARP) {
        const int r = i / packs, c = i % packs * PACK;
        float x[PACK], y[PACK] = {0};
        if (r >= have || c >= dim)
            continue;
        load<PACK>(x, rows + r * S::LD + c);
        if (add)
            load<PACK>(y, to + (size_t)r * ld + c);
        for (int k = 0; k < PACK; k++)
            x[k] += y[k];
        store<PACK>(to + (size_t)r * ld + c, x);
    }
    __syncwarp();
}

/* turn(keys, values, l) for each tile of the first `keys` keys. */
template <class S, int WARPS, int PACK, typename F>
__device__ static inline void flash_keys(bf16 *smem, const struct flash_args &a, const struct flash_head &at, int keys,
                                         F turn)
{
    const bf16 *k = (const bf16 *)a.k + at.key(a, a.ldk, 0), *v = (const bf16 *)a.v + at.key(a, a.ldv, 0);
    const auto take = [&](int to, int l) {
        flash_take<S, WARPS, PACK, FLASH_TILE>(smem, to, k + (int64_t)l * a.ldk, a.ldk, keys - l, a.s.dim);
        flash_take<S, WARPS, PACK, FLASH_TILE>(smem, to + S::STAGE / 2, v + (int64_t)l * a.ldv, a.ldv, keys - l,
                                               a.s.dim);
    };
    take(0, 0);
    for (int l = 0, now = 0; l < keys; l += FLASH_TILE, now = S::STAGE - now) {
        flash_arrive();
        if (l + FLASH_TILE < keys)
            take(S::STAGE - now, l + FLASH_TILE);
        turn(now, now + S::STAGE / 2, l);
    }
    __syncthreads();
}

#endif
