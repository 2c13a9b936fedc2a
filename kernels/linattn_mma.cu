/* SPDX-License-Identifier: Apache-2.0 */
/* linattn_mma.cu - ReLU linear attention on tensor cores, for bf16 and heads of 32 channels
 *
 * The kernels of linattn.cu with their sums as products of 16 x 16 x 16.  Tensor
 * cores add in fp32, and a product of two bf16 numbers is exact there; a value
 * that is not bf16 (sums over tokens, gradients over the divisor) is split into
 * two bf16 numbers, the rounded value and the remainder, so that 16 bits of
 * it count.  A block owns a head and 128 tokens at a time, a warp 16 of those.
 */
#include "kernels/device.cuh"

enum {
    MMA_DIM = 32,
    MMA_TOKENS = 128,
    MMA_ROWS = 48,  /* rows of the sums: 32, the divisor's row, zero padding */
    /* Row lengths: multiples of 16 bytes, and not all in the same banks. */
    MMA_LEFT = 56, MMA_RIGHT = 40, MMA_SUMS = 36, MMA_SCRATCH = 52
};

/* A block's shared memory. */
struct mma_smem {
    bf16  *left, *low; /* tokens with MMA_ROWS numbers, the remainder of each in `low` */
    bf16  *right;      /* tokens with MMA_DIM numbers */
    bf16  *hi, *lo;    /* the sums, each split in two */
    float *sums;
    float *scratch;    /* this warp's scratch: 16 tokens with MMA_ROWS numbers */
    __device__ mma_smem(float *smem)
    {
        left = (bf16 *)smem;
        low = left + MMA_TOKENS * MMA_LEFT;
        right = low + MMA_TOKENS * MMA_LEFT;
        hi = right + MMA_TOKENS * MMA_RIGHT;
        lo = hi + MMA_ROWS * MMA_RIGHT;
        sums = (float *)(lo + MMA_ROWS * MMA_RIGHT);
        scratch = sums + MMA_ROWS * MMA_SUMS + threadIdx.x / WARP * 16 * MMA_SCRATCH;
    }
};

static size_t mma_bytes(void)
{
    return sizeof(bf16) * (MMA_TOKENS * (2 * MMA_LEFT + MMA_RIGHT) + 2 * MMA_ROWS * MMA_RIGHT) +
           sizeof(float) * (MMA_ROWS * MMA_SUMS + LIN_WARPS * 16 * MMA_SCRATCH);
}

/* Tokens from t0 on as rows of 32 numbers, row length `step`; zeros after the last token. */
template <bool RELU>
__device__ static inline void mma_take(bf16 *to, int step, const void *from, int ld,
                                       const struct lin_head<MMA_DIM> &f, int t0)
{
    for (int i = (int)threadIdx.x; i < MMA_TOKENS * MMA_DIM / 4; i += BLOCK) {
        const int t = i / (MMA_DIM / 4), c = i % (MMA_DIM / 4) * 4;
        float x[4] = {0, 0, 0, 0};
        if (t0 + t < f.tokens)
            load<4>(x, (const bf16 *)from + f.row(t0 + t, ld) + c);
        for (int j = 0; RELU && j < 4; j++)
            x[j] = relu(x[j]);
        store<4>(to + t * step + c, x);
    }
}

/* (v, 1) of each token. */
__device__ static inline void mma_take_v(const struct mma_smem &m, const struct lin_args &a,
                                         const struct lin_head<MMA_DIM> &f, int t0)
{
    mma_take<false>(m.left, MMA_LEFT, a.v, a.ldv, f, t0);
    for (int i = (int)threadIdx.x; i < MMA_TOKENS * 4; i += BLOCK) {
        const float x[4] = {i % 4 == 0 ? 1.0f : 0.0f, 0, 0, 0};
        store<4>(m.left + i / 4 * MMA_LEFT + MMA_DIM + i % 4 * 4, x);
    }
}

__device__ static inline void mma_halves(bf16 *hi, bf16 *lo, float x)
{
    *hi = narrow<bf16>(x);
    *lo = narrow<bf16>(x - widen(*hi));
}

/* Splits the sums in two; the block synchronizes before and after. */
__device__ static inline void mma_split(const struct mma_smem &m)
{
    __syncthreads();
    for (int i = (int)threadIdx.x; i < MMA_ROWS * MMA_DIM; i += BLOCK) {
        const int e = i / MMA_DIM, j = i % MMA_DIM;
        mma_halves(m.hi + e * MMA_RIGHT + j, m.lo + e * MMA_RIGHT + j, m.sums[e * MMA_SUMS + j]);
    }
    __syncthreads();
}

/* A warp's part of the sums: a tile of 16 x 16, for the first six warps. */
struct mma_part {
    struct att_sum<bf16> sum;
    int                  row, col;
    bool                 mine;
    __device__ mma_part()
    {
        const int warp = (int)threadIdx.x / WARP;
        row = warp / 2 * 16, col = warp % 2 * 16;
        mine = row < MMA_ROWS;
    }
    /* += left^T right over the loaded tokens */
    __device__ void add(const bf16 *left, const bf16 *right)
    {
        ONE_BY_ONE
        for (int t = 0; mine && t < MMA_TOKENS; t += 16)
            sum.template add<true, false>(left + t * MMA_LEFT + row, MMA_LEFT,
                                          right + t * MMA_RIGHT + col, MMA_RIGHT);
    }
    __device__ void store(const struct mma_smem &m) const
    {
        if (mine)
            sum.store(m.sums + row * MMA_SUMS + col, MMA_SUMS);
    }
};

/* scratch[16 tokens][16 n ..] = right sums^T: n = 3 with the divisor, 2 without. */
__device__ static inline void mma_across(const struct mma_smem &m, int t, int n)
{
    ONE_BY_ONE
    for (int i = 0; i < n; i++) {
        struct att_sum<bf16> s;
        for (int k = 0; k < MMA_DIM; k += 16) {
            const bf16 *a = m.right + t * MMA_RIGHT + k;
            const int at = i * 16 * MMA_RIGHT + k;
            s.template add<false, true>(a, MMA_RIGHT, m.hi + at, MMA_RIGHT);
            s.template add<false, true>(a, MMA_RIGHT, m.lo + at, MMA_RIGHT);
        }
        s.store(m.scratch + i * 16, MMA_SCRATCH);
    }
    __syncwarp();
}

/* scratch[16 tokens][32] = left sums; with LOW, left is split in two. */
template <bool LOW> __device__ static inline void mma_down(const struct mma_smem &m, int t)
{
    ONE_BY_ONE
    for (int i = 0; i < MMA_DIM; i += 16) {
        struct att_sum<bf16> s;
        for (int k = 0; k < MMA_ROWS; k += 16) {
            const int from = t * MMA_LEFT + k, at = k * MMA_RIGHT + i;
            s.template add<false, false>(m.left + from, MMA_LEFT, m.hi + at, MMA_RIGHT);
            s.template add<false, false>(m.left + from, MMA_LEFT, m.lo + at, MMA_RIGHT);
            if (LOW)
                s.template add<false, false>(m.low + from, MMA_LEFT, m.hi + at, MMA_RIGHT);
        }
        s.store(m.scratch + i, MMA_SCRATCH);
    }
    __syncwarp();
}

/* Writes the sums of all tokens to memory, in the layout of the other kernels. */
__device__ static inline void mma_keep(const struct mma_smem &m, float *vk)
{
    for (int i = (int)threadIdx.x; i < (MMA_DIM + 1) * MMA_DIM; i += BLOCK)
        vk[i] = m.sums[i / MMA_DIM * MMA_SUMS + i % MMA_DIM];
}

/* A lane's half of a token: 16 numbers from `first` on. */
struct mma_lane {
    int row, first;
    __device__ mma_lane()
    {
        row = (int)threadIdx.x % WARP / 2, first = (int)threadIdx.x % 2 * 16;
    }
};

/* Writes scratch times `share` to memory; with `gate`, only where the gate is above 0. */
__device__ static inline void mma_give(bf16 *to, const float *scratch, float share,
                                       const bf16 *gate)
{
    for (int c = 0; c < 16; c += 4) {
        float x[4];
        for (int j = 0; j < 4; j++)
            x[j] = !gate || widen(gate[c + j]) > 0.0f ? scratch[c + j] * share : 0.0f;
        store<4>(to + c, x);
    }
}

__global__ void __launch_bounds__(BLOCK, 2) lin_mma_kernel(struct lin_args a)
{
    DYNAMIC_SHARED(float, smem);
    const struct lin_head<MMA_DIM> f(a, smem);
    const struct mma_smem m(smem);
    const struct mma_lane l;
    const int t = (int)threadIdx.x / WARP * 16; /* this warp's share of the loaded tokens */
    struct mma_part part;
    for (int t0 = 0; t0 < f.tokens; t0 += MMA_TOKENS) {
        __syncthreads();
        mma_take<true>(m.right, MMA_RIGHT, a.k, a.ldqk, f, t0);
        mma_take_v(m, a, f, t0);
        __syncthreads();
        part.add(m.left, m.right);
    }
    part.store(m);
    mma_split(m);
    mma_keep(m, f.own(a.vk));
    for (int t0 = 0; t0 < f.tokens; t0 += MMA_TOKENS) {
        __syncthreads();
        mma_take<true>(m.right, MMA_RIGHT, a.q, a.ldqk, f, t0);
        __syncthreads();
        mma_across(m, t, 3);
        const int token = t0 + t + l.row;
        const float *scratch = m.scratch + l.row * MMA_SCRATCH;
        if (token < f.tokens)
            mma_give((bf16 *)a.out + f.row(token, a.ldo) + l.first, scratch + l.first,
                     1.0f / (scratch[MMA_DIM] + LIN_EPS), NULL);
    }
}

/* From dout in `left` and the numerator in scratch: (dnum, dden), each split in two, as in
 * lin_query_back() of linattn.cu. */
__device__ static inline void mma_query_back(const struct mma_smem &m, int t)
{
    const struct mma_lane l;
    const float *scratch = m.scratch + l.row * MMA_SCRATCH;
    bf16 *left = m.left + (t + l.row) * MMA_LEFT, *low = m.low + (t + l.row) * MMA_LEFT;
    const float share = 1.0f / (scratch[MMA_DIM] + LIN_EPS);
    float w = 0;
    for (int e = l.first; e < l.first + 16; e++) {
        const float dnum = widen(left[e]) * share;
        w -= dnum * (scratch[e] * share);
        mma_halves(left + e, low + e, dnum);
    }
    w += __shfl_xor_sync(0xffffffffu, w, 1);
    for (int e = MMA_DIM + l.first / 2; e < MMA_DIM + l.first / 2 + 8; e++)
        mma_halves(left + e, low + e, e == MMA_DIM ? w : 0.0f);
    __syncwarp();
}

__global__ void __launch_bounds__(BLOCK, 2) lin_mma_back_kernel(struct lin_args a)
{
    DYNAMIC_SHARED(float, smem);
    const struct lin_head<MMA_DIM> f(a, smem);
    const struct mma_smem m(smem);
    const struct mma_lane l;
    const int t = (int)threadIdx.x / WARP * 16;
    const float *scratch = m.scratch + l.row * MMA_SCRATCH + l.first;
    const bf16 *gate = m.right + (t + l.row) * MMA_RIGHT + l.first;
    float *vk = f.own(a.vk);
    struct mma_part part;
    for (int i = (int)threadIdx.x; i < MMA_ROWS * MMA_DIM; i += BLOCK)
        m.sums[i / MMA_DIM * MMA_SUMS + i % MMA_DIM] = i < (MMA_DIM + 1) * MMA_DIM ? vk[i] : 0.0f;
    mma_split(m);
    for (int t0 = 0; t0 < f.tokens; t0 += MMA_TOKENS) {
        const int token = t0 + t + l.row;
        __syncthreads();
        mma_take<true>(m.right, MMA_RIGHT, a.q, a.ldqk, f, t0);
        mma_take<false>(m.left, MMA_LEFT, a.dout, a.ldo, f, t0);
        __syncthreads();
        mma_across(m, t, 3);
        mma_query_back(m, t);
        mma_down<true>(m, t);
        if (token < f.tokens)
            mma_give((bf16 *)a.dq + f.row(token, a.ldd) + l.first, scratch, 1, gate);
        __syncthreads();
        part.add(m.left, m.right);
        part.add(m.low, m.right);
    }
    part.store(m); /* gradients of the sums take their place */
    mma_split(m);
    mma_keep(m, vk);
    for (int t0 = 0; t0 < f.tokens; t0 += MMA_TOKENS) {
        const int token = t0 + t + l.row;
        __syncthreads();
        mma_take<true>(m.right, MMA_RIGHT, a.k, a.ldqk, f, t0);
        mma_take_v(m, a, f, t0);
        __syncthreads();
        mma_down<false>(m, t);
        if (token < f.tokens)
            mma_give((bf16 *)a.dk + f.row(token, a.ldd) + l.first, scratch, 1, gate);
        __syncwarp();
        mma_across(m, t, 2);
        if (token < f.tokens)
            mma_give((bf16 *)a.dv + f.row(token, a.ldd) + l.first, scratch, 1, NULL);
    }
}

/* Whether these kernels support this call and are enabled. */
static bool mma_fits(const struct lin_args *a, std::initializer_list<size_t> distances)
{
    return device.precision == KERN_BF16 && a->s.dim == MMA_DIM && device_way("tensor") &&
           by_four(distances, (const char *)a->out, (const char *)a->dq, (const char *)a->dk,
                   (const char *)a->dv, (const char *)a->q, (const char *)a->k,
                   (const char *)a->v, (const char *)a->dout);
}

static void mma_launch(const char *name, void (*kernel)(struct lin_args), const struct lin_args *a)
{
    launch(name, kernel, dim3((unsigned)(a->s.batch * a->s.heads)), dim3(BLOCK), mma_bytes(), *a);
}
