/* SPDX-License-Identifier: Apache-2.0 */
/* linattn_mma.cu - ReLU linear attention on tensor cores, for bf16 and heads of 32 channels
 *
 * The kernels of linattn.cu with their sums as products of 16 x 16 x 16.  Tensor
 * cores add in fp32, and a product of two bf16 numbers is exact there; a value
 * that is not bf16 (sums over tokens, gradients over the divisor) is split into
 * two bf16 numbers, the rounded value and the remainder, so that 16 bits of
 * it count.  A block owns a head and 128 tokens at a time, a warp 16 of those.
 */
#include <mma.h>

#include "kernels/mma.cuh"

enum {
    MMA_DIM = 32,
    MMA_TOKENS = 128,
    MMA_ROWS = 48,  /* rows of the sums: 32, the divisor's row, zero padding */
    /* Row lengths: multiples of 16 bytes, and not all in the same banks. */
    MMA_LEFT = 56, MMA_RIGHT = 40, MMA_SUMS = 36, MMA_SCRATCH = 52
};

/* c[16, 16] += a b by one warp; TA: a is stored [k][m], TB: b is stored [n][k]. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
/* Tensor cores without bf16: never called, since ops_cuda.cu opens such a GPU for fp32 only. */
struct mma_sum {
    template <bool TA, bool TB> __device__ void add(const bf16 *, int, const bf16 *, int)
    {
        __trap();
    }
    __device__ void store(float *, int) const
    {
        __trap();
    }
};
#else
struct mma_sum {
    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> c;
    __device__ mma_sum()
    {
        nvcuda::wmma::fill_fragment(c, 0.0f);
    }
    template <bool TA, bool TB> __device__ void add(const bf16 *a, int lda, const bf16 *b, int ldb)
    {
        using namespace nvcuda::wmma;
        typedef typename std::conditional<TA, col_major, row_major>::type way_a;
        typedef typename std::conditional<TB, col_major, row_major>::type way_b;
        fragment<matrix_a, 16, 16, 16, bf16, way_a> fa;
        fragment<matrix_b, 16, 16, 16, bf16, way_b> fb;
        load_matrix_sync(fa, a, (unsigned)lda);
        load_matrix_sync(fb, b, (unsigned)ldb);
        mma_sync(c, fa, fb, c);
    }
    __device__ void store(float *to, int ld) const
    {
        nvcuda::wmma::store_matrix_sync(to, c, (unsigned)ld, nvcuda::wmma::mem_row_major);
    }
};
#endif

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

/* N neighbours, split in two. */
template <int N> __device__ static inline void mma_halves(bf16 *hi, bf16 *lo, const float *x)
{
    float rest[N];
    for (int i = 0; i < N; i++)
        rest[i] = x[i] - widen(narrow<bf16>(x[i]));
    store<N>(hi, x);
    store<N>(lo, rest);
}

/* Splits the sums in two, which are there after the next barrier. */
__device__ static inline void mma_split(const struct mma_smem &m)
{
    __syncthreads();
    for (int i = (int)threadIdx.x; i < MMA_ROWS * MMA_DIM / 4; i += BLOCK) {
        const int e = i / (MMA_DIM / 4), j = i % (MMA_DIM / 4) * 4;
        float x[4];
        load<4>(x, m.sums + e * MMA_SUMS + j);
        mma_halves<4>(m.hi + e * MMA_RIGHT + j, m.lo + e * MMA_RIGHT + j, x);
    }
}

/* A warp's part of the sums: a tile of 16 x 16, for the first six warps. */
struct mma_part {
    struct mma_sum sum;
    int            row, col;
    bool           mine;
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
            sum.add<true, false>(left + t * MMA_LEFT + row, MMA_LEFT,
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
        struct mma_sum s;
        for (int k = 0; k < MMA_DIM; k += 16) {
            const bf16 *a = m.right + t * MMA_RIGHT + k;
            const int at = i * 16 * MMA_RIGHT + k;
            s.add<false, true>(a, MMA_RIGHT, m.hi + at, MMA_RIGHT);
            s.add<false, true>(a, MMA_RIGHT, m.lo + at, MMA_RIGHT);
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
        struct mma_sum s;
        for (int k = 0; k < MMA_ROWS; k += 16) {
            const int from = t * MMA_LEFT + k, at = k * MMA_RIGHT + i;
            s.add<false, false>(m.left + from, MMA_LEFT, m.hi + at, MMA_RIGHT);
            s.add<false, false>(m.left + from, MMA_LEFT, m.lo + at, MMA_RIGHT);
            if (LOW)
                s.add<false, false>(m.low + from, MMA_LEFT, m.hi + at, MMA_RIGHT);
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

/* fn(token, c) for a warp's tokens, four numbers from c on: eight lanes have a token, so that a warp reads and writes
 * whole sectors. */
template <typename F> __device__ static inline void mma_each(F fn)
{
    for (int i = (int)threadIdx.x % WARP; i < 16 * (MMA_DIM / 4); i += WARP)
        fn(i / (MMA_DIM / 4), i % (MMA_DIM / 4) * 4);
}

/* store<4>(), which nvcc would make four stores of here. */
__device__ static inline void mma_put(bf16 *to, const float (&x)[4])
{
    *reinterpret_cast<uint64_t *>(to) = (uint64_t)mma_pair(x[2], x[3]) << 32 | mma_pair(x[0], x[1]);
}

/* Writes scratch to memory, tokens from `first` on; DIVIDED by the divisor; `gate`: only where it is above 0. */
template <bool DIVIDED>
__device__ static inline void mma_give(void *to, int ld, const struct lin_head<MMA_DIM> &f, const struct mma_smem &m,
                                       int first, const bf16 *gate)
{
    mma_each([&](int t, int c) {
        const float *scratch = m.scratch + t * MMA_SCRATCH;
        const float share = DIVIDED ? 1.0f / (scratch[MMA_DIM] + LIN_EPS) : 1.0f;
        float x[4], above[4] = {1, 1, 1, 1};
        if (first + t >= f.tokens)
            return;
        load<4>(x, scratch + c);
        if (gate)
            load<4>(above, gate + t * MMA_RIGHT + c);
        for (int j = 0; j < 4; j++)
            x[j] = above[j] > 0.0f ? x[j] * share : 0.0f;
        mma_put((bf16 *)to + f.row(first + t, ld) + c, x);
    });
}

__global__ void __launch_bounds__(BLOCK, 2) lin_mma_kernel(struct lin_args a)
{
    DYNAMIC_SHARED(float, smem);
    const struct lin_head<MMA_DIM> f(a, smem);
    const struct mma_smem m(smem);
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
        mma_give<true>(a.out, a.ldo, f, m, t0 + t, NULL);
    }
}

/* From dout in `left` and the numerator in scratch: (dnum, dden), each split in two, as in
 * lin_query_back() of linattn.cu. */
__device__ static inline void mma_query_back(const struct mma_smem &m, int first)
{
    mma_each([&](int t, int c) {
        const float *scratch = m.scratch + t * MMA_SCRATCH;
        const int at = (first + t) * MMA_LEFT;
        const float share = 1.0f / (scratch[MMA_DIM] + LIN_EPS);
        float num[4], dnum[4], w[2] = {0, 0};
        load<4>(num, scratch + c);
        load<4>(dnum, m.left + at + c);
        for (int j = 0; j < 4; j++) {
            dnum[j] *= share;
            w[0] -= dnum[j] * (num[j] * share);
        }
        for (int half = MMA_DIM / 8; half > 0; half /= 2)
            w[0] += __shfl_xor_sync(0xffffffffu, w[0], half);
        w[0] = c == 0 ? w[0] : 0.0f;
        mma_halves<4>(m.left + at + c, m.low + at + c, dnum);
        mma_halves<2>(m.left + at + MMA_DIM + c / 2, m.low + at + MMA_DIM + c / 2, w);
    });
    __syncwarp();
}

__global__ void __launch_bounds__(BLOCK, 2) lin_mma_back_kernel(struct lin_args a)
{
    DYNAMIC_SHARED(float, smem);
    const struct lin_head<MMA_DIM> f(a, smem);
    const struct mma_smem m(smem);
    const int t = (int)threadIdx.x / WARP * 16;
    const bf16 *gate = m.right + t * MMA_RIGHT;
    float *vk = f.own(a.vk);
    struct mma_part part;
    for (int i = (int)threadIdx.x; i < MMA_ROWS * MMA_DIM; i += BLOCK)
        m.sums[i / MMA_DIM * MMA_SUMS + i % MMA_DIM] = i < (MMA_DIM + 1) * MMA_DIM ? vk[i] : 0.0f;
    mma_split(m);
    for (int t0 = 0; t0 < f.tokens; t0 += MMA_TOKENS) {
        __syncthreads();
        mma_take<true>(m.right, MMA_RIGHT, a.q, a.ldqk, f, t0);
        mma_take<false>(m.left, MMA_LEFT, a.dout, a.ldo, f, t0);
        __syncthreads();
        mma_across(m, t, 3);
        mma_query_back(m, t);
        mma_down<true>(m, t);
        mma_give<false>(a.dq, a.ldd, f, m, t0 + t, gate);
        __syncthreads();
        part.add(m.left, m.right);
        part.add(m.low, m.right);
    }
    part.store(m); /* gradients of the sums take their place */
    mma_split(m);
    mma_keep(m, vk);
    for (int t0 = 0; t0 < f.tokens; t0 += MMA_TOKENS) {
        __syncthreads();
        mma_take<true>(m.right, MMA_RIGHT, a.k, a.ldqk, f, t0);
        mma_take_v(m, a, f, t0);
        __syncthreads();
        mma_down<false>(m, t);
        mma_give<false>(a.dk, a.ldd, f, m, t0 + t, gate);
        __syncwarp();
        mma_across(m, t, 2);
        mma_give<false>(a.dv, a.ldd, f, m, t0 + t, NULL);
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
