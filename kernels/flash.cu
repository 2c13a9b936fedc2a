/* SPDX-License-Identifier: Apache-2.0 */
/* flash.cu - softmax attention in bf16 on tensor cores, forward and backward; see flash.cuh */
#include "kernels/flash.cuh"

/* --- forward --------------------------------------------------------------------------------- */

template <class S> struct flash_softmax {
    float top[S::DOWN][2], sum[S::DOWN][2]; /* of each row so far; sum: of this lane's columns */
    float out[S::DOWN][S::TILES][4];
    float unit;                             /* of exponents of two */

    __device__ explicit flash_softmax(float scale)
    {
        unit = scale * FLASH_LOG2E;
        UNROLLED
        for (int m = 0; m < S::DOWN; m++) {
            top[m][0] = top[m][1] = FLASH_NEVER;
            sum[m][0] = sum[m][1] = 0;
            flash_zero(out[m]);
        }
    }

    /* Scores become exponentials; what was summed before is scaled to their maximum. */
    template <int N> __device__ void meet(float (&s)[N][S::DOWN][2][4], int m, int half)
    {
        float most = top[m][half], part = 0;
        UNROLLED
        for (int i = 0; i < 4 * N; i++)
            most = fmaxf(most, s[i / 4][m][i / 2 % 2][half * 2 + i % 2]);
        most = flash_max(most);
        const float base = most * unit, fade = mma_exp2(top[m][half] * unit - base);
        UNROLLED
        for (int i = 0; i < 4 * N; i++) {
            float &x = s[i / 4][m][i / 2 % 2][half * 2 + i % 2];
            x = mma_exp2(x * unit - base);
            part += x;
        }
        top[m][half] = most;
        sum[m][half] = sum[m][half] * fade + part;
        UNROLLED
        for (int i = 0; i < 2 * S::TILES; i++)
            out[m][i / 2][half * 2 + i % 2] *= fade;
    }

    /* 16 N keys from l. */
    template <int N>
    __device__ void take(const uint32_t (&q)[S::DOWN][S::STEPS][4], const bf16 *k, const bf16 *v,
                         const struct flash_seen &seen, int l)
    {
        float s[N][S::DOWN][2][4];
        const shared_at keys = flash_across<S>(k), values = flash_down<S>(v);
        UNROLLED
        for (int i = 0; i < N; i++) {
            UNROLLED
            for (int m = 0; m < S::DOWN; m++)
                flash_begin(s[i][m], seen, l + i * 16);
            flash_dot<S, S::DOWN>(s[i], q, keys + i * 16 * S::ROW);
        }
        UNROLLED
        for (int i = 0; i < 2 * S::DOWN; i++)
            meet<N>(s, i / 2, i % 2);
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
                a.kept[at.rows + mine] = top[m][half] * unit / FLASH_LOG2E + logf(all);
        }
        flash_lay<S>(rows, out[m], by[0], by[1]);
        flash_give<S, PACK>((bf16 *)a.out + at.q + (size_t)row * C, (size_t)C, rows, a.s.tokens - row, a.s.dim, false);
    }
};

template <int DIM, int PACK> __global__ void __launch_bounds__(FLASH_WARPS *WARP) flash_kernel(struct flash_args a)
{
    typedef flash_shape<DIM> S;
    enum { ROWS = S::DOWN * 16, QUERIES = FLASH_WARPS * ROWS, KEYS = S::BESIDE * 16 };
    DYNAMIC_SHARED(bf16, smem);
    const struct flash_head at(a, (int)blockIdx.y / a.s.heads, (int)blockIdx.y % a.s.heads);
    const struct flash_seen seen(a, at);
    const int first = (int)blockIdx.x * QUERIES, warp = (int)threadIdx.x / WARP, row = first + warp * ROWS;
    const int C = a.s.heads * a.s.dim;
    uint32_t q[S::DOWN][S::STEPS][4];
    flash_softmax<S> sums(1.0f / sqrtf((float)a.s.dim));
    flash_clear<S, FLASH_WARPS>(smem, PACK == 8 ? a.s.dim : S::STEPS * 16);
    flash_fetch<S, FLASH_WARPS, PACK, S::DOWN>(q, smem, (const bf16 *)a.q + at.q + (size_t)first * C, (size_t)C,
                                               a.s.tokens - first, a.s.dim);
    flash_keys<S, FLASH_WARPS, PACK>(smem, a, at, seen.keys, [&](const bf16 *k, const bf16 *v, int l) {
        ONE_BY_ONE
        for (int n = 0; n < FLASH_TILE && l + n < seen.keys && row < a.s.tokens; n += KEYS)
            sums.template take<S::BESIDE>(q, k + n * S::LD, v + n * S::LD, seen, l + n);
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
    s = mma_exp2(s * unit - kept);
    dp = s * (dp - delta);
}

/* s: scores of 16 queries and the keys from l; dp: the gradients of their probabilities. */
template <class S>
__device__ static inline void flash_both(float (&s)[1][2][4], float (&dp)[1][2][4], const uint32_t (&q)[1][S::STEPS][4],
                                         const uint32_t (&g)[1][S::STEPS][4], const bf16 *k, const bf16 *v)
{
    flash_dot<S, 1>(s, q, flash_across<S>(k));
    flash_dot<S, 1>(dp, g, flash_across<S>(v));
}

template <class S> struct flash_query_back {
    uint32_t          q[1][S::STEPS][4], g[1][S::STEPS][4]; /* g: of dout */
    float             dq[1][S::TILES][4];
    struct flash_rows rows;
    float             unit;

    /* p and p (dp - delta) of 16 keys from l. */
    __device__ void slopes(float (&s)[1][2][4], float (&dp)[1][2][4], const bf16 *k, const bf16 *v,
                           const struct flash_seen &seen, int l)
    {
        flash_begin(s[0], seen, l);
        flash_zero(dp[0]);
        flash_both<S>(s, dp, q, g, k, v);
        UNROLLED
        for (int i = 0; i < 8; i++)
            flash_slope(s[0][i / 4][i % 4], dp[0][i / 4][i % 4], unit, rows.kept[i / 2 % 2], rows.delta[i / 2 % 2]);
    }

    /* dout . out, of fragments. */
    __device__ void delta_of(const uint32_t (&out)[1][S::STEPS][4])
    {
        rows.delta[0] = rows.delta[1] = 0;
        UNROLLED
        for (int i = 0; i < 4 * S::STEPS; i++) {
            const uint32_t x = g[0][i / 4][i % 4], y = out[0][i / 4][i % 4];
            rows.delta[i % 2] += mma_low(x) * mma_low(y) + mma_high(x) * mma_high(y);
        }
    }

    /* The rows from `row` of a head: what the forward pass has kept of them, and what the kernel of keys needs. */
    __device__ void meet(const struct flash_args &a, const struct flash_head &at, int row)
    {
        UNROLLED
        for (int half = 0; half < 2; half++) {
            const int mine = row + (int)threadIdx.x % WARP / 4 + half * 8;
            rows.kept[half] = mine < a.s.tokens ? a.kept[at.rows + mine] * FLASH_LOG2E : 0.0f;
        }
    }

    __device__ void keep(const struct flash_args &a, const struct flash_head &at, int row)
    {
        UNROLLED
        for (int half = 0; half < 2; half++) {
            const int mine = row + (int)threadIdx.x % WARP / 4 + half * 8;
            rows.delta[half] = flash_sum(rows.delta[half]);
            const float x[2] = {rows.kept[half], rows.delta[half]};
            if (threadIdx.x % 4 == 0 && mine < a.s.tokens)
                store<2>(a.stats + 2 * (at.rows + mine), x);
        }
    }
};

/* The sum over all keys of p dp: that of p (dp - delta) is then zero up to rounding; dout . out of rounded numbers would
 * not give that where few keys have most of a caption. */
template <class S, int PACK>
__device__ static inline void flash_delta(struct flash_query_back<S> &of, bf16 *smem, const struct flash_args &a,
                                          const struct flash_head &at, const struct flash_seen &seen)
{
    float delta[2] = {0, 0};
    of.rows.delta[0] = of.rows.delta[1] = 0;
    flash_keys<S, FLASH_BACK_WARPS, PACK>(smem, a, at, seen.keys, [&](const bf16 *k, const bf16 *v, int l) {
        ONE_BY_ONE
        for (int n = 0; n < FLASH_TILE && l + n < seen.keys; n += 16) {
            float p[1][2][4], pdp[1][2][4];
            of.slopes(p, pdp, k + n * S::LD, v + n * S::LD, seen, l + n);
            UNROLLED
            for (int i = 0; i < 8; i++)
                delta[i / 2 % 2] += pdp[0][i / 4][i % 4];
        }
    });
    of.rows.delta[0] = delta[0], of.rows.delta[1] = delta[1];
}

/* dq = ds k, or more of it: a block owns queries. */
template <int DIM, int PACK> __global__ void __launch_bounds__(FLASH_BACK_WARPS *WARP)
flash_query_back_kernel(struct flash_args a)
{
    typedef flash_shape<DIM> S;
    enum { WARPS = FLASH_BACK_WARPS };
    DYNAMIC_SHARED(bf16, smem);
    const struct flash_head at(a, (int)blockIdx.y / a.s.heads, (int)blockIdx.y % a.s.heads);
    const struct flash_seen seen(a, at);
    const int warp = (int)threadIdx.x / WARP, first = (int)blockIdx.x * WARPS * 16, row = first + warp * 16;
    const int C = a.s.heads * a.s.dim, have = a.s.tokens - first;
    const size_t from = at.q + (size_t)first * C;
    const float scale = 1.0f / sqrtf((float)a.s.dim);
    struct flash_query_back<S> of;
    of.unit = scale * FLASH_LOG2E;
    flash_zero(of.dq[0]);
    flash_clear<S, WARPS>(smem, PACK == 8 ? a.s.dim : S::STEPS * 16);
    flash_fetch<S, WARPS, PACK, 1>(of.q, smem, (const bf16 *)a.q + from, (size_t)C, have, a.s.dim);
    flash_fetch<S, WARPS, PACK, 1>(of.g, smem, (const bf16 *)a.dout + from, (size_t)C, have, a.s.dim);
    of.meet(a, at, row);
    if (a.was) {
        uint32_t out[1][S::STEPS][4];
        flash_fetch<S, WARPS, PACK, 1>(out, smem, (const bf16 *)a.was + from, (size_t)C, have, a.s.dim);
        of.delta_of(out);
    } else {
        flash_delta<S, PACK>(of, smem, a, at, seen);
    }
    of.keep(a, at, row);
    flash_keys<S, WARPS, PACK>(smem, a, at, seen.keys, [&](const bf16 *k, const bf16 *v, int l) {
        ONE_BY_ONE
        for (int n = 0; n < FLASH_TILE && l + n < seen.keys && row < a.s.tokens; n += 16) {
            float p[1][2][4], ds[1][2][4];
            uint32_t by[1][4];
            of.slopes(p, ds, k + n * S::LD, v + n * S::LD, seen, l + n);
            flash_narrow(by[0], ds[0]);
            flash_spread<S, 1>(of.dq, by, flash_down<S>(k + n * S::LD));
        }
    });
    if (row >= a.s.tokens)
        return;
    bf16 *rows = smem + warp * 16 * S::LD;
    flash_lay<S>(rows, of.dq[0], scale, scale);
    flash_give<S, PACK>((bf16 *)a.dq + at.q + (size_t)row * C, (size_t)C, rows, a.s.tokens - row, a.s.dim, a.add);
}

/* The queries of the heads that share a key head, tile after tile, with dout and stats. */
template <class S, int PACK> struct flash_queries {
    const struct flash_args &a;
    bf16                    *smem;
    int                      b, head, per; /* the first head; tiles of a head */

    __device__ float *stats(int stage) const
    {
        return (float *)(smem + 2 * S::STAGE) + stage * FLASH_STATS;
    }

    __device__ void take(int i) const
    {
        const struct flash_head at(a, b, head + i / per);
        const int first = i % per * FLASH_TILE, have = a.s.tokens - first, r = (int)threadIdx.x;
        const size_t C = (size_t)a.s.heads * a.s.dim, from = at.q + first * C;
        bf16 *to = smem + i % 2 * S::STAGE;
        flash_take<S, FLASH_BACK_WARPS, PACK, FLASH_TILE>(to, (const bf16 *)a.q + from, C, have, a.s.dim);
        flash_take<S, FLASH_BACK_WARPS, PACK, FLASH_TILE>(to + S::STAGE / 2, (const bf16 *)a.dout + from, C, have,
                                                          a.s.dim);
        if (r < FLASH_TILE)
            copy_start<8>(mma_place(stats(i % 2) + 2 * r), a.stats + 2 * (at.rows + first + r), r < have);
    }
};

template <class S> struct flash_key_back {
    uint32_t k[1][S::STEPS][4], v[1][S::STEPS][4];
    float    dk[1][S::TILES][4], dv[1][S::TILES][4];
    float    bias[2], unit;

    /* 16 queries, all of this as if they were keys and keys queries. */
    __device__ void take(const bf16 *q, const bf16 *g, const float *stats)
    {
        float s[1][2][4], dp[1][2][4];
        uint32_t p[1][4], ds[1][4];
        flash_zero(dp[0]);
        UNROLLED
        for (int i = 0; i < 8; i++)
            s[0][i / 4][i % 4] = bias[i / 2 % 2];
        flash_both<S>(s, dp, k, v, q, g);
        UNROLLED
        for (int j = 0; j < 2; j++) {
            float x[4]; /* of two queries */
            load<4>(x, stats + 2 * (j * 8 + (int)threadIdx.x % 4 * 2));
            UNROLLED
            for (int i = 0; i < 4; i++)
                flash_slope(s[0][j][i], dp[0][j][i], unit, x[i % 2 * 2], x[i % 2 * 2 + 1]);
        }
        flash_narrow(p[0], s[0]);
        flash_narrow(ds[0], dp[0]);
        flash_spread<S, 1>(dv, p, flash_down<S>(g));
        flash_spread<S, 1>(dk, ds, flash_down<S>(q));
    }
};

/* dv = p^T dout, dk = ds^T q: a block owns keys, with all heads that share them. */
template <int DIM, int PACK> __global__ void __launch_bounds__(FLASH_BACK_WARPS *WARP)
flash_key_back_kernel(struct flash_args a)
{
    typedef flash_shape<DIM> S;
    enum { WARPS = FLASH_BACK_WARPS };
    DYNAMIC_SHARED(bf16, smem);
    const int b = (int)blockIdx.y / a.t.heads, group = (int)blockIdx.y % a.t.heads, shared = a.s.heads / a.t.heads;
    const struct flash_head at(a, b, group * shared);
    const struct flash_seen seen(a, at);
    const int warp = (int)threadIdx.x / WARP, first = (int)blockIdx.x * WARPS * 16, l = first + warp * 16;
    const int dim = a.s.dim, have = at.keys - first;
    const float scale = 1.0f / sqrtf((float)dim);
    const struct flash_queries<S, PACK> from = {a, smem, b, group * shared,
                                                (a.s.tokens + FLASH_TILE - 1) / FLASH_TILE};
    struct flash_key_back<S> of;
    if (have < 1)
        return;
    flash_zero(of.dk[0]);
    flash_zero(of.dv[0]);
    of.unit = scale * FLASH_LOG2E;
    for (int half = 0; half < 2; half++)
        of.bias[half] = seen.bias(l + (int)threadIdx.x % WARP / 4 + half * 8);
    flash_clear<S, WARPS>(smem, PACK == 8 ? dim : S::STEPS * 16);
    flash_fetch<S, WARPS, PACK, 1>(of.k, smem, (const bf16 *)a.k + at.key(a, a.ldk, first), (size_t)a.ldk, have, dim);
    flash_fetch<S, WARPS, PACK, 1>(of.v, smem, (const bf16 *)a.v + at.key(a, a.ldv, first), (size_t)a.ldv, have, dim);
    from.take(0);
    for (int i = 0; i < shared * from.per; i++) {
        const bf16 *q = smem + i % 2 * S::STAGE, *g = q + S::STAGE / 2;
        const int left = a.s.tokens - i % from.per * FLASH_TILE;
        flash_arrive();
        if (i + 1 < shared * from.per)
            from.take(i + 1);
        ONE_BY_ONE
        for (int n = 0; n < FLASH_TILE && n < left && l < seen.keys; n += 16)
            of.take(q + n * S::LD, g + n * S::LD, from.stats(i % 2) + 2 * n);
    }
    __syncthreads();
    bf16 *rows = smem + warp * 16 * S::LD;
    flash_lay<S>(rows, of.dv[0], 1, 1);
    flash_give<S, PACK>((bf16 *)a.dv + at.key(a, a.lddkv, l), (size_t)a.lddkv, rows, at.keys - l, dim, false);
    flash_lay<S>(rows, of.dk[0], scale, scale);
    flash_give<S, PACK>((bf16 *)a.dk + at.key(a, a.lddkv, l), (size_t)a.lddkv, rows, at.keys - l, dim, false);
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
               dim3(tiles((size_t)a.s.tokens, FLASH_WARPS * S::DOWN * 16), heads), dim3(FLASH_WARPS * WARP), S::bytes,
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
        launch(name, flash_query_back_kernel<S::DIM, decltype(pack)::value>,
               dim3(tiles((size_t)a.s.tokens, FLASH_BACK_WARPS * 16), heads), dim3(FLASH_BACK_WARPS * WARP), S::bytes,
               a);
        launch(name, flash_key_back_kernel<S::DIM, decltype(pack)::value>,
               dim3(tiles((size_t)a.t.most, FLASH_BACK_WARPS * 16), groups), dim3(FLASH_BACK_WARPS * WARP), S::bytes,
               a);
    });
}
