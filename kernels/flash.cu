/* SPDX-License-Identifier: Apache-2.0 */
/* flash.cu - softmax attention in bf16 on tensor cores, forward and backward; see flash.cuh */
#include "kernels/flash.cuh"

/* --- forward --------------------------------------------------------------------------------- */

template <class S> struct flash_softmax {
    float less[S::DOWN][2];          /* of each row: what is added to its exponents of two, so that they stay small */
    float sum[S::DOWN][2];           /* so far, of this lane's columns */
    float out[S::DOWN][S::TILES][4];
    float unit;                      /* of exponents of two */

    __device__ explicit flash_softmax(float scale)
    {
        unit = scale * FLASH_LOG2E;
        UNROLLED
        for (int m = 0; m < S::DOWN; m++) {
            less[m][0] = less[m][1] = -FLASH_NEVER;
            sum[m][0] = sum[m][1] = 0;
            flash_zero(out[m]);
        }
    }

    /* The largest score of a row among these, of this lane's columns. */
    template <int N> __device__ static float most(const float (&s)[N][S::DOWN][2][4], int m, int half)
    {
        float x = s[0][m][0][half * 2];
        UNROLLED
        for (int i = 1; i < 4 * N; i++)
            x = fmaxf(x, s[i / 4][m][i / 2 % 2][half * 2 + i % 2]);
        return x;
    }

    /* Scales what was summed to `next`, the largest scores, where a row has outgrown `less`. */
    __device__ void grow(const float (&next)[S::DOWN][2])
    {
        UNROLLED
        for (int i = 0; i < 2 * S::DOWN; i++) {
            float &from = less[i / 2][i % 2];
            const float top = flash_max(next[i / 2][i % 2]), to = outgrown(from, top) ? -top * unit : from;
            const float fade = mma_exp2(to - from);
            from = to;
            sum[i / 2][i % 2] *= fade;
            UNROLLED
            for (int k = 0; k < 2 * S::TILES; k++)
                out[i / 2][k / 2][i % 2 * 2 + k % 2] *= fade;
        }
    }

    __device__ bool outgrown(float from, float top) const
    {
        return fmaf(top, unit, from) > FLASH_ROOM;
    }

    /* Scores become exponentials. The largest need not be 1: an exponential up to 2^8 is as exact as one up to 1, and
     * most tiles then leave the sums as they are. */
    template <int N> __device__ void meet(float (&s)[N][S::DOWN][2][4])
    {
        float next[S::DOWN][2];
        bool grown = false;
        UNROLLED
        for (int i = 0; i < 2 * S::DOWN; i++) {
            next[i / 2][i % 2] = most<N>(s, i / 2, i % 2);
            grown = grown || outgrown(less[i / 2][i % 2], next[i / 2][i % 2]);
        }
        if (mma_any(grown))
            grow(next);
        UNROLLED
        for (int i = 0; i < 8 * N * S::DOWN; i++) {
            const int m = i / 8 % S::DOWN, half = i / 2 % 2;
            float &x = s[i / 8 / S::DOWN][m][i / 4 % 2][i % 4];
            x = mma_exp2(fmaf(x, unit, less[m][half]));
            sum[m][half] += x;
        }
    }

    /* 16 N keys from l, and their values, a tile behind: flash_across() of the former, flash_down() of the latter. */
    template <int N>
    __device__ void take(const uint32_t (&q)[S::DOWN][S::STEPS][4], shared_at keys, shared_at values,
                         const struct flash_seen &seen, int l)
    {
        float s[N][S::DOWN][2][4];
        flash_begin<N, S::DOWN>(s, seen, l);
        UNROLLED
        for (int i = 0; i < N; i++)
            flash_dot<S, S::DOWN>(s[i], q, keys + i * 16 * S::ROW, values + i * 16 * S::ROW - S::TILE_BYTES);
        meet<N>(s);
        UNROLLED
        for (int i = 0; i < N; i++) {
            uint32_t p[S::DOWN][4];
            UNROLLED
            for (int m = 0; m < S::DOWN; m++)
                flash_narrow(p[m], s[i][m]);
            flash_spread<S, S::DOWN>(out, p, values + i * 16 * S::ROW);
        }
    }

    /* 16 of the rows, the first of them `row` of its head: their share of shared memory is `rows`. */
    template <int PACK>
    __device__ void end(const struct flash_args &a, const struct flash_head &at, bf16 *rows, int m, int row)
    {
        const int lane = (int)threadIdx.x % WARP, C = a.s.heads * a.s.dim;
        float by[2];
        UNROLLED
        for (int half = 0; half < 2; half++) {
            const float all = flash_sum(sum[m][half]);
            const int mine = row + lane / 4 + half * 8;
            by[half] = 1.0f / all;
            if (lane % 4 == 0 && mine < a.s.tokens)
                a.kept[at.rows + mine] = logf(all) - less[m][half] / FLASH_LOG2E;
        }
        flash_lay<S>(rows, out[m], by[0], by[1]);
        flash_give<S, PACK>((bf16 *)a.out + at.q + (size_t)row * C, (size_t)C, rows, a.s.tokens - row, a.s.dim, false);
    }
};

template <int DIM, int PACK>
__global__ void __launch_bounds__(flash_shape<DIM>::WARPS *WARP, 8 / flash_shape<DIM>::WARPS)
flash_kernel(struct flash_args a)
{
    typedef flash_shape<DIM> S;
    enum { ROWS = S::DOWN * 16, QUERIES = S::WARPS * ROWS, KEYS = S::BESIDE * 16 };
    DYNAMIC_SHARED(bf16, smem);
    const struct flash_head at(a, (int)blockIdx.y / a.s.heads, (int)blockIdx.y % a.s.heads);
    const struct flash_seen seen(a, at);
    const int first = (int)blockIdx.x * QUERIES, warp = (int)threadIdx.x / WARP, row = first + warp * ROWS;
    const int C = a.s.heads * a.s.dim;
    uint32_t q[S::DOWN][S::STEPS][4];
    flash_softmax<S> sums(1.0f / sqrtf((float)a.s.dim));
    flash_clear<S, S::WARPS>(smem, PACK == 8 ? a.s.dim : S::STEPS * 16);
    flash_fetch<S, S::WARPS, PACK, S::DOWN>(q, smem, (const bf16 *)a.q + at.q + (size_t)first * C, C,
                                               a.s.tokens - first, a.s.dim);
    flash_keys<S, S::WARPS, PACK>(smem, a, at, seen.keys, [&](int k, int v, int l) {
        const shared_at keys = flash_across<S>(smem) + k * 2, values = flash_down<S>(smem) + v * 2;
        ONE_BY_ONE
        for (int n = 0; n < FLASH_TILE && l + n < seen.keys && row < a.s.tokens; n += KEYS)
            sums.template take<S::BESIDE>(q, keys + n * S::ROW, values + n * S::ROW, seen, l + n);
    });
    UNROLLED
    for (int m = 0; m < S::DOWN; m++)
        if (row + m * 16 < a.s.tokens)
            sums.template end<PACK>(a, at, smem + (warp * ROWS + m * 16) * S::LD, m, row + m * 16);
}

/* --- backward -------------------------------------------------------------------------------- */

/* Per row of this lane: kept * log2(e), and the sum of p dp. */
struct flash_rows {
    float kept[2], delta[2];
};

/* The exponentials of 16 scores, and of their gradients but for the scale: p and p (dp - delta). */
__device__ static inline void flash_slope(float &s, float &dp, float unit, float kept, float delta)
{
    s = mma_exp2(fmaf(s, unit, -kept));
    dp = s * (dp - delta);
}

/* s: scores of 16 queries and 16 keys; dp: the gradients of their probabilities. k and down: flash_across() and
 * flash_down() of the keys, whose values are a tile behind. */
template <class S, int DOWN>
__device__ static inline void flash_both(float (&s)[DOWN][2][4], float (&dp)[DOWN][2][4],
                                         const uint32_t (&q)[DOWN][S::STEPS][4],
                                         const uint32_t (&g)[DOWN][S::STEPS][4], shared_at k, shared_at down)
{
    flash_dot<S, DOWN>(s, q, k, down);
    flash_dot<S, DOWN>(dp, g, k + S::TILE_BYTES, down + S::TILE_BYTES);
}

template <class S> struct flash_query_back {
    enum { DOWN = S::BACK_DOWN };
    uint32_t          q[DOWN][S::STEPS][4], g[DOWN][S::STEPS][4]; /* g: of dout */
    float             dq[DOWN][S::TILES][4];
    struct flash_rows rows[DOWN];
    float             unit;

    /* p and p (dp - delta) of 16 keys from l. */
    __device__ void slopes(float (&s)[1][DOWN][2][4], float (&dp)[DOWN][2][4], shared_at k, shared_at down,
                           const struct flash_seen &seen, int l)
    {
        flash_begin<1, DOWN>(s, seen, l);
        UNROLLED
        for (int m = 0; m < DOWN; m++)
            flash_zero(dp[m]);
        flash_both<S, DOWN>(s[0], dp, q, g, k, down);
        UNROLLED
        for (int i = 0; i < 8 * DOWN; i++)
            flash_slope(s[0][i / 8][i / 4 % 2][i % 4], dp[i / 8][i / 4 % 2][i % 4], unit, rows[i / 8].kept[i / 2 % 2],
                        rows[i / 8].delta[i / 2 % 2]);
    }

    /* dout . out, of fragments. */
    __device__ void delta_of(const uint32_t (&out)[DOWN][S::STEPS][4])
    {
        enum { EACH = 4 * S::STEPS };
        UNROLLED
        for (int i = 0; i < DOWN * EACH; i++) {
            const uint32_t x = g[i / EACH][i % EACH / 4][i % 4], y = out[i / EACH][i % EACH / 4][i % 4];
            rows[i / EACH].delta[i % 2] += mma_low(x) * mma_low(y) + mma_high(x) * mma_high(y);
        }
    }

    /* The rows from `row` of a head: what the forward pass has kept of them, and what the kernel of keys needs. */
    __device__ void meet(const struct flash_args &a, const struct flash_head &at, int row)
    {
        UNROLLED
        for (int i = 0; i < 2 * DOWN; i++) {
            const int mine = row + (int)threadIdx.x % WARP / 4 + i * 8;
            rows[i / 2].kept[i % 2] = mine < a.s.tokens ? a.kept[at.rows + mine] * FLASH_LOG2E : 0.0f;
            rows[i / 2].delta[i % 2] = 0;
        }
    }

    __device__ void keep(const struct flash_args &a, const struct flash_head &at, int row)
    {
        UNROLLED
        for (int i = 0; i < 2 * DOWN; i++) {
            const int mine = row + (int)threadIdx.x % WARP / 4 + i * 8;
            float &delta = rows[i / 2].delta[i % 2];
            delta = flash_sum(delta);
            const float x[2] = {rows[i / 2].kept[i % 2], delta};
            if (threadIdx.x % 4 == 0 && mine < a.s.tokens)
                store<2>(a.stats + 2 * (at.rows + mine), x);
        }
    }
};

/* The sum over all keys of p dp: that of p (dp - delta) is then zero up to rounding; dout . out of rounded numbers
 * would not give that. */
template <class S, int PACK>
__device__ static inline void flash_delta(struct flash_query_back<S> &of, bf16 *smem, const struct flash_args &a,
                                          const struct flash_head &at, const struct flash_seen &seen)
{
    enum { DOWN = S::BACK_DOWN };
    float delta[DOWN][2] = {};
    flash_keys<S, FLASH_BACK_WARPS, PACK>(smem, a, at, seen.keys, [&](int k, int, int l) {
        const shared_at keys = flash_across<S>(smem) + k * 2, down = flash_down<S>(smem) + k * 2;
        ONE_BY_ONE
        for (int n = 0; n < FLASH_TILE && l + n < seen.keys; n += 16) {
            float p[1][DOWN][2][4], pdp[DOWN][2][4];
            of.slopes(p, pdp, keys + n * S::ROW, down + n * S::ROW, seen, l + n);
            UNROLLED
            for (int i = 0; i < 8 * DOWN; i++)
                delta[i / 8][i / 2 % 2] += pdp[i / 8][i / 4 % 2][i % 4];
        }
    });
    UNROLLED
    for (int i = 0; i < 2 * DOWN; i++)
        of.rows[i / 2].delta[i % 2] = delta[i / 2][i % 2];
}

/* The sum of p dp for all rows of this warp, of which the kernel of keys is told. */
template <class S, int PACK>
__device__ static inline void flash_know(struct flash_query_back<S> &of, bf16 *smem, const struct flash_args &a,
                                         const struct flash_head &at, const struct flash_seen &seen, int first, int row)
{
    const int C = a.s.heads * a.s.dim;
    of.meet(a, at, row);
    if (a.was) {
        uint32_t out[S::BACK_DOWN][S::STEPS][4];
        flash_fetch<S, FLASH_BACK_WARPS, PACK, S::BACK_DOWN>(out, smem, (const bf16 *)a.was + at.q + (size_t)first * C,
                                                             C, a.s.tokens - first, a.s.dim);
        of.delta_of(out);
    } else {
        flash_delta<S, PACK>(of, smem, a, at, seen);
    }
    of.keep(a, at, row);
}

/* dq = ds k, or more of it: a block owns queries. */
template <int DIM, int PACK> __global__ void __launch_bounds__(FLASH_BACK_WARPS *WARP, 1)
flash_query_back_kernel(struct flash_args a)
{
    typedef flash_shape<DIM> S;
    enum { WARPS = FLASH_BACK_WARPS, DOWN = S::BACK_DOWN, ROWS = DOWN * 16 };
    DYNAMIC_SHARED(bf16, smem);
    const struct flash_head at(a, (int)blockIdx.y / a.s.heads, (int)blockIdx.y % a.s.heads);
    const struct flash_seen seen(a, at);
    const int warp = (int)threadIdx.x / WARP, first = (int)blockIdx.x * WARPS * ROWS, row = first + warp * ROWS;
    const int C = a.s.heads * a.s.dim, have = a.s.tokens - first;
    const size_t from = at.q + (size_t)first * C;
    const float scale = 1.0f / sqrtf((float)a.s.dim);
    struct flash_query_back<S> of;
    of.unit = scale * FLASH_LOG2E;
    flash_clear<S, WARPS>(smem, PACK == 8 ? a.s.dim : S::STEPS * 16);
    flash_fetch<S, WARPS, PACK, DOWN>(of.q, smem, (const bf16 *)a.q + from, C, have, a.s.dim);
    flash_fetch<S, WARPS, PACK, DOWN>(of.g, smem, (const bf16 *)a.dout + from, C, have, a.s.dim);
    flash_know<S, PACK>(of, smem, a, at, seen, first, row);
    UNROLLED
    for (int m = 0; m < DOWN; m++)
        flash_zero(of.dq[m]);
    flash_keys<S, WARPS, PACK>(smem, a, at, seen.keys, [&](int k, int, int l) {
        const shared_at keys = flash_across<S>(smem) + k * 2, again = flash_down<S>(smem) + k * 2;
        ONE_BY_ONE
        for (int n = 0; n < FLASH_TILE && l + n < seen.keys && row < a.s.tokens; n += 16) {
            float p[1][DOWN][2][4], ds[DOWN][2][4];
            uint32_t by[DOWN][4];
            of.slopes(p, ds, keys + n * S::ROW, again + n * S::ROW, seen, l + n);
            UNROLLED
            for (int m = 0; m < DOWN; m++)
                flash_narrow(by[m], ds[m]);
            flash_spread<S, DOWN>(of.dq, by, again + n * S::ROW);
        }
    });
    UNROLLED
    for (int m = 0; m < DOWN && row + m * 16 < a.s.tokens; m++) {
        bf16 *rows = smem + (warp * ROWS + m * 16) * S::LD;
        flash_lay<S>(rows, of.dq[m], scale, scale);
        flash_give<S, PACK>((bf16 *)a.dq + at.q + (size_t)(row + m * 16) * C, (size_t)C, rows,
                            a.s.tokens - row - m * 16, a.s.dim, a.add);
    }
}

/* The queries of the heads that share a key head, tile after tile, with dout and stats. */
template <class S, int PACK> struct flash_queries {
    const struct flash_args &a;
    bf16                    *smem;
    struct flash_head        at;            /* the first of the heads */
    int                      heads, h, row; /* how many; what comes next */

    __device__ const float *stats(int stage) const
    {
        return (const float *)(smem + 2 * S::STAGE) + stage * FLASH_STATS;
    }

    __device__ bool more(void) const
    {
        return h < heads;
    }

    __device__ void take(int stage)
    {
        const int have = a.s.tokens - row, r = (int)threadIdx.x, to = stage * S::STAGE;
        const int C = a.s.heads * a.s.dim;
        const size_t from = at.q + (size_t)h * a.s.dim + (int64_t)row * C;
        const float *stat = a.stats + 2 * (at.rows + (size_t)h * a.s.tokens + row);
        flash_take<S, FLASH_BACK_WARPS, PACK, FLASH_TILE>(smem, to, (const bf16 *)a.q + from, C, have, a.s.dim);
        flash_take<S, FLASH_BACK_WARPS, PACK, FLASH_TILE>(smem, to + S::STAGE / 2, (const bf16 *)a.dout + from, C,
                                                          have, a.s.dim);
        if (r < FLASH_TILE)
            copy_start<8>(mma_place(stats(stage) + 2 * r), stat + 2 * r, r < have);
        row += FLASH_TILE;
        if (row >= a.s.tokens)
            row = 0, h++;
    }
};

/* Two warps, a pair, have the same keys: one makes p and dv = p^T dout, the other dp and dk = ds^T q, for which it is
 * handed p. Each has half of the sums in its registers, so it can have more keys, and what is read of shared memory
 * serves all of them. */
template <class S> struct flash_key_back {
    enum { DOWN = S::KEY_DOWN };
    uint32_t  own[DOWN][S::STEPS][4]; /* keys, or values for dk */
    float     sum[DOWN][S::TILES][4]; /* of dv or dk */
    float     unit;
    bool      for_dk, counts;         /* counts: the pair has keys that count */
    float    *handed;                 /* this lane's first four numbers of p; FLASH_PAIRS HANDED on, those by turns */
    int       dot, spread;            /* where tiles lie in a stage, bytes: of q and dout, or the reverse */

    __device__ flash_key_back(bf16 *smem, float scale)
    {
        const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
        for_dk = warp >= FLASH_PAIRS;
        handed = (float *)(smem + 2 * S::STAGE) + 2 * FLASH_STATS + warp % FLASH_PAIRS * S::HANDED + lane * 4;
        unit = scale * FLASH_LOG2E;
        dot = for_dk ? S::TILE_BYTES : 0;
        spread = S::TILE_BYTES - dot;
        UNROLLED
        for (int m = 0; m < DOWN; m++)
            flash_zero(sum[m]);
    }

    /* Of this lane's four queries: what the forward pass has kept, or delta. */
    __device__ void recall(float (&x)[4], const float *stats) const
    {
        UNROLLED
        for (int i = 0; i < 4; i++)
            x[i] = stats[(i / 2 * 8 + (int)threadIdx.x % 4 * 2 + i % 2) * 2 + for_dk];
    }

    /* Scores become p, which is handed over. */
    __device__ void give(float (&x)[DOWN][2][4], const float *stats, float *to) const
    {
        float kept[4];
        recall(kept, stats);
        UNROLLED
        for (int i = 0; i < 2 * DOWN; i++) {
            UNROLLED
            for (int k = 0; k < 4; k++)
                x[i / 2][i % 2][k] = mma_exp2(fmaf(x[i / 2][i % 2][k], unit, -kept[i % 2 * 2 + k % 2]));
            store<4>(to + i * 4 * WARP, x[i / 2][i % 2]);
        }
    }

    /* dp becomes p (dp - delta). */
    __device__ void get(float (&x)[DOWN][2][4], const float *stats, const float *from) const
    {
        float delta[4];
        recall(delta, stats);
        UNROLLED
        for (int i = 0; i < 2 * DOWN; i++) {
            float p[4];
            load<4>(p, from + i * 4 * WARP);
            UNROLLED
            for (int k = 0; k < 4; k++)
                x[i / 2][i % 2][k] = p[k] * (x[i / 2][i % 2][k] - delta[i % 2 * 2 + k % 2]);
        }
    }

    /* 16 queries, as if they were keys and keys queries: flash_across() and flash_down() of them. All warps come. */
    __device__ void take(shared_at q, shared_at again, const float *stats, int turn)
    {
        float x[DOWN][2][4];
        float *p = handed + turn * FLASH_PAIRS * S::HANDED;
        if (counts) {
            UNROLLED
            for (int m = 0; m < DOWN; m++)
                flash_zero(x[m]);
            flash_dot<S, DOWN>(x, own, q + dot, again + dot);
            if (!for_dk)
                give(x, stats, p);
        }
        __syncthreads(); /* p is written, and nobody needs what it was two turns before */
        if (counts) {
            uint32_t by[DOWN][4];
            if (for_dk)
                get(x, stats, p);
            UNROLLED
            for (int m = 0; m < DOWN; m++)
                flash_narrow(by[m], x[m]);
            flash_spread<S, DOWN>(sum, by, again + spread);
        }
    }

    /* All queries. */
    template <int PACK> __device__ void sweep(struct flash_queries<S, PACK> from)
    {
        int left = from.a.s.tokens, turn = 0; /* left: queries of the head from this tile on */
        from.take(0);
        for (int now = 0, more = 1; more; now ^= 1) {
            const shared_at q = flash_across<S>(from.smem) + now * S::STAGE * 2;
            const shared_at again = flash_down<S>(from.smem) + now * S::STAGE * 2;
            flash_arrive();
            more = from.more();
            if (more)
                from.take(now ^ 1);
            ONE_BY_ONE
            for (int n = 0; n < FLASH_TILE && n < left; n += 16, turn ^= 1)
                take(q + n * S::ROW, again + n * S::ROW, from.stats(now) + 2 * n, turn);
            left = left > FLASH_TILE ? left - FLASH_TILE : from.a.s.tokens;
        }
        __syncthreads();
    }
};

/* The sums of this warp, whose keys begin at l. What is needed of the mask is found again: registers are few before. */
template <class S, int PACK>
__device__ static inline void flash_key_end(const struct flash_key_back<S> &of, bf16 *rows, const struct flash_args &a,
                                            const struct flash_head &at, int l)
{
    const struct flash_seen seen(a, at);
    const float scale = of.for_dk ? 1.0f / sqrtf((float)a.s.dim) : 1.0f;
    bf16 *to = (bf16 *)(of.for_dk ? a.dk : a.dv);
    UNROLLED
    for (int m = 0; m < S::KEY_DOWN; m++, l += 16) {
        float by[2]; /* nothing for what is masked, whose p here has no bound */
        UNROLLED
        for (int half = 0; half < 2; half++)
            by[half] = seen.bias(l + (int)threadIdx.x % WARP / 4 + half * 8) == 0.0f ? scale : 0.0f;
        flash_lay<S>(rows, of.sum[m], by[0], by[1]);
        flash_give<S, PACK>(to + at.key(a, a.lddkv, l), (size_t)a.lddkv, rows, at.keys - l, a.s.dim, false);
    }
}

/* dv = p^T dout, dk = ds^T q: a block owns keys, with all heads that share them. */
template <int DIM, int PACK> __global__ void __launch_bounds__(FLASH_BACK_WARPS *WARP, 1)
flash_key_back_kernel(struct flash_args a)
{
    typedef flash_shape<DIM> S;
    enum { WARPS = FLASH_BACK_WARPS, PAIRS = FLASH_PAIRS, DOWN = S::KEY_DOWN };
    DYNAMIC_SHARED(bf16, smem);
    const int b = (int)blockIdx.y / a.t.heads, group = (int)blockIdx.y % a.t.heads, shared = a.s.heads / a.t.heads;
    const struct flash_head at(a, b, group * shared);
    const unsigned warp = threadIdx.x / WARP;
    const int first = (int)blockIdx.x * S::PAIR_KEYS, l = first + (int)warp % PAIRS * DOWN * 16;
    const int dim = a.s.dim, have = at.keys - first;
    struct flash_key_back<S> of(smem, 1.0f / sqrtf((float)dim));
    if (have < 1)
        return;
    flash_clear<S, WARPS>(smem, PACK == 8 ? dim : S::STEPS * 16);
    flash_fetch<S, WARPS, PACK, DOWN, PAIRS>(of.own, smem, (const bf16 *)a.k + at.key(a, a.ldk, first), a.ldk, have,
                                             dim, warp);
    flash_fetch<S, WARPS, PACK, DOWN, PAIRS>(of.own, smem, (const bf16 *)a.v + at.key(a, a.ldv, first), a.ldv, have,
                                             dim, warp - PAIRS);
    of.counts = l < flash_seen(a, at).keys;
    of.template sweep<PACK>({a, smem, at, shared, 0, 0});
    flash_key_end<S, PACK>(of, smem + warp * 16 * S::LD, a, at, l);
}

/* --- launches -------------------------------------------------------------------------------- */

/* fn(channels, numbers at once), both constants: rows of 8 numbers that lie on 16 bytes, or any. */
template <typename F> static void flash_for(int dim, bool eights, F fn)
{
    const std::integral_constant<int, 8> eight;
    if (!eights)
        fn(std::integral_constant<int, 128>(), std::integral_constant<int, 1>());
    else if (dim <= 32)
        fn(std::integral_constant<int, 32>(), eight);
    else if (dim <= 72)
        fn(std::integral_constant<int, 72>(), eight);
    else if (dim <= 112)
        fn(std::integral_constant<int, 112>(), eight);
    else
        fn(std::integral_constant<int, 128>(), eight);
}

static bool flash_eights(const struct flash_args &a)
{
    bool fit = by_four({}, a.out, a.q, a.k, a.v, a.dq, a.dk, a.dv, a.dout, a.was);
    for (const int n : {a.s.dim, a.ldk, a.ldv, a.lddkv})
        fit = fit && n % 8 == 0;
    return fit;
}

static void flash_forward(const char *name, const struct flash_args &a)
{
    const unsigned heads = (unsigned)(a.s.batch * a.s.heads);
    flash_for(a.s.dim, flash_eights(a), [&](auto dim, auto pack) {
        typedef flash_shape<decltype(dim)::value> S;
        launch(name, flash_kernel<S::DIM, decltype(pack)::value>,
               dim3(tiles((size_t)a.s.tokens, S::WARPS * S::DOWN * 16), heads), dim3(S::WARPS * WARP), S::bytes,
               a);
    });
}

/* Memory for stats; false: there is none, which is recorded. */
static bool flash_room(struct flash_args *a)
{
    const size_t rows = (size_t)a->s.batch * (size_t)a->s.heads * (size_t)a->s.tokens;
    a->stats = (float *)device_scratch(SCRATCH_PARTS, 2 * rows * sizeof(float));
    return a->stats != NULL;
}

static void flash_backward(const char *name, const struct flash_args &a)
{
    const unsigned heads = (unsigned)(a.s.batch * a.s.heads), groups = (unsigned)(a.s.batch * a.t.heads);
    flash_for(a.s.dim, flash_eights(a), [&](auto dim, auto pack) {
        typedef flash_shape<decltype(dim)::value> S;
        static_assert(S::key_bytes <= 99 * 1024, "what a block of compute capability 8.6 and 8.9 may have");
        launch(name, flash_query_back_kernel<S::DIM, decltype(pack)::value>,
               dim3(tiles((size_t)a.s.tokens, FLASH_BACK_WARPS * S::BACK_DOWN * 16), heads),
               dim3(FLASH_BACK_WARPS * WARP), S::bytes, a);
        launch(name, flash_key_back_kernel<S::DIM, decltype(pack)::value>,
               dim3(tiles((size_t)a.t.most, S::PAIR_KEYS), groups), dim3(FLASH_BACK_WARPS * WARP), S::key_bytes, a);
    });
}
