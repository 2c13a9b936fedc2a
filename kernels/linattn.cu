/* SPDX-License-Identifier: Apache-2.0 */
/* linattn.cu - ReLU linear attention; linattn_ref.c has the formulas
 *
 * A block owns a head: it sums over all tokens, which stream through shared memory,
 * and then visits them again with the sums, one warp per token.
 * The backward pass recomputes numerator and divisor of a token instead of reading
 * rounded results.  All arithmetic is fp32, as in the authors' code; heads of 32
 * channels in bf16 go to linattn_mma.cu.
 */
#include "kernels/device.cuh"

/* LIN_DIM: what fits into 99 KB of shared memory, which every GPU since sm_80 grants. */
enum { LIN_TOKENS = 32, LIN_WARPS = BLOCK / WARP, LIN_DIM = 128 };
#define LIN_EPS 1e-8f

struct lin_args {
    void             *out, *dq, *dk, *dv;
    float            *vk;
    const void       *q, *k, *v, *dout;
    int               ldo, ldqk, ldv, ldd;
    struct kern_heads s;
};

/* A block's head, and its shared memory: the sums with row length dim + 1, so that a warp can walk
 * columns; two tiles of tokens, dim + 1 and dim wide. DIM 0: the size is known at run time. */
template <int DIM> struct lin_head {
    int    dim, b, h, tokens, heads;
    float *sums, *left, *right;
    __device__ lin_head(const struct lin_args &a, float *smem)
    {
        dim = DIM ? DIM : a.s.dim;
        b = (int)blockIdx.x / a.s.heads, h = (int)blockIdx.x % a.s.heads;
        tokens = a.s.tokens, heads = a.s.heads;
        sums = smem;
        left = sums + (dim + 1) * (dim + 1);
        right = left + LIN_TOKENS * (dim + 1);
    }
    __device__ size_t row(int t, int ld) const
    {
        return ((size_t)b * tokens + t) * ld + (size_t)h * dim;
    }
    __device__ float *own(float *vk) const
    {
        return vk + ((size_t)b * heads + h) * (size_t)(dim + 1) * dim;
    }
    __device__ int some(int t0) const
    {
        return tokens - t0 < LIN_TOKENS ? tokens - t0 : LIN_TOKENS;
    }
    __device__ int turns(int each) const
    {
        return ((dim + 1) * dim + BLOCK * each - 1) / (BLOCK * each);
    }
};

__device__ static inline float relu(float x)
{
    return x < 0.0f ? 0.0f : x;
}

/* Tokens from t0 on as rows `step` wide; `last` is appended to each row if step has room. */
template <bool RELU, typename T, int DIM>
__device__ static inline void lin_take(float *to, int step, const T *from, int ld, float last,
                                       const struct lin_head<DIM> &f, int t0)
{
    for (int i = (int)threadIdx.x; i < f.some(t0) * step; i += BLOCK) {
        const int t = i / step, e = i % step;
        const float x = e < f.dim ? widen(from[f.row(t0 + t, ld) + e]) : last;
        to[i] = RELU ? relu(x) : x;
    }
}

/* A part of sums[d][j] += left[t][d] right[t][j], (dim + 1) x dim in all; a thread has EACH of them
 * per iteration. */
template <int DIM> struct lin_sum {
    enum { EACH = DIM == 32 ? 5 : 8 };
    float at[EACH];
    int   first, count, dim;
    __device__ lin_sum(const struct lin_head<DIM> &f, int turn)
        : first(turn * BLOCK * EACH + (int)threadIdx.x), count((f.dim + 1) * f.dim), dim(f.dim)
    {
        for (int i = 0; i < EACH; i++)
            at[i] = 0;
    }
    __device__ void add(const struct lin_head<DIM> &f, int tokens)
    {
        for (int t = 0; t < tokens; t++)
            for (int i = 0; i < EACH; i++) {
                const int p = first + i * BLOCK < count ? first + i * BLOCK : 0;
                at[i] += f.left[t * (dim + 1) + p / dim] * f.right[t * dim + p % dim];
            }
    }
    __device__ void store(float *to) const
    {
        for (int i = 0; i < EACH; i++)
            if (first + i * BLOCK < count)
                to[first + i * BLOCK] = at[i];
    }
};

/* Sums from memory into shared memory, where they are after the next barrier. A thread reads what lin_sum.store() of
 * the same thread has written. */
template <int DIM>
__device__ static inline void lin_load(const struct lin_head<DIM> &f, const float *vk)
{
    for (int i = (int)threadIdx.x; i < (f.dim + 1) * f.dim; i += BLOCK)
        f.sums[i / f.dim * (f.dim + 1) + i % f.dim] = vk[i];
}

/* x . row e of the sums, for x of one token; row dim gives the divisor without eps. */
template <int DIM>
__device__ static inline float lin_dot(const struct lin_head<DIM> &f, const float *x, int e)
{
    float sum = 0;
    for (int j = 0; j < f.dim; j++)
        sum += x[j] * f.sums[e * (f.dim + 1) + j];
    return sum;
}

/* x . column j of the sums without their last row. */
template <int DIM>
__device__ static inline float lin_across(const struct lin_head<DIM> &f, const float *x, int j)
{
    float sum = 0;
    for (int e = 0; e < f.dim; e++)
        sum += x[e] * f.sums[e * (f.dim + 1) + j];
    return sum;
}

template <int DIM>
__device__ static inline float lin_divisor(const struct lin_head<DIM> &f, const float *q, int lane)
{
    float d = 0;
    for (int j = lane; j < f.dim; j += WARP)
        d += q[j] * f.sums[f.dim * (f.dim + 1) + j];
    return warp_sum(d) + LIN_EPS;
}

template <typename T, int DIM> __global__ void __launch_bounds__(BLOCK, 2)
lin_kernel(struct lin_args a)
{
    DYNAMIC_SHARED(float, smem);
    const struct lin_head<DIM> f(a, smem);
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    for (int turn = 0; turn < f.turns(lin_sum<DIM>::EACH); turn++) {
        struct lin_sum<DIM> sum(f, turn);
        for (int t0 = 0; t0 < f.tokens; t0 += LIN_TOKENS) {
            __syncthreads();
            lin_take<true>(f.right, f.dim, (const T *)a.k, a.ldqk, 0, f, t0);
            lin_take<false>(f.left, f.dim + 1, (const T *)a.v, a.ldv, 1, f, t0);
            __syncthreads();
            sum.add(f, f.some(t0));
        }
        sum.store(f.own(a.vk));
    }
    lin_load(f, f.own(a.vk));
    for (int t0 = 0; t0 < f.tokens; t0 += LIN_TOKENS) {
        __syncthreads();
        lin_take<true>(f.right, f.dim, (const T *)a.q, a.ldqk, 0, f, t0);
        __syncthreads();
        for (int t = warp; t < f.some(t0); t += LIN_WARPS) {
            const float *q = f.right + t * f.dim;
            const float share = 1.0f / lin_divisor(f, q, lane);
            for (int e = lane; e < f.dim; e += WARP)
                ((T *)a.out)[f.row(t0 + t, a.ldo) + e] = narrow<T>(lin_dot(f, q, e) * share);
        }
    }
}

/* Backward for one token, by one warp: replaces dout in f.left by dnum = dout / den, appends
 * dden = -dnum . out, and computes dq = dnum vk + dden ksum where q > 0. */
template <typename T, int DIM>
__device__ static inline void lin_query_back(const struct lin_head<DIM> &f, T *dq, int t, int lane)
{
    const float *q = f.right + t * f.dim, share = 1.0f / lin_divisor(f, q, lane);
    float *dnum = f.left + t * (f.dim + 1), w = 0;
    for (int e = lane; e < f.dim; e += WARP) {
        dnum[e] *= share;
        w -= dnum[e] * (lin_dot(f, q, e) * share);
    }
    w = warp_sum(w);
    if (lane == 0)
        dnum[f.dim] = w;
    __syncwarp(); /* all of dnum is written */
    for (int j = lane; j < f.dim; j += WARP) {
        const float d = w * f.sums[f.dim * (f.dim + 1) + j] + lin_across(f, dnum, j);
        dq[j] = narrow<T>(q[j] > 0.0f ? d : 0.0f);
    }
}

/* With dvk and dksum as sums: dk = v dvk + dksum where k > 0, dv = k dvk^T. */
template <typename T, int DIM>
__device__ static inline void lin_key_back(const struct lin_head<DIM> &f, T *dk, T *dv, int t,
                                           int lane)
{
    const float *k = f.right + t * f.dim, *v = f.left + t * (f.dim + 1);
    for (int j = lane; j < f.dim; j += WARP) {
        const float d = f.sums[f.dim * (f.dim + 1) + j] + lin_across(f, v, j);
        dk[j] = narrow<T>(k[j] > 0.0f ? d : 0.0f);
        dv[j] = narrow<T>(lin_dot(f, k, j));
    }
}

template <typename T, int DIM> __global__ void __launch_bounds__(BLOCK, 2)
lin_back_kernel(struct lin_args a)
{
    DYNAMIC_SHARED(float, smem);
    const struct lin_head<DIM> f(a, smem);
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    lin_load(f, f.own(a.vk));
    for (int turn = 0; turn < f.turns(lin_sum<DIM>::EACH); turn++) {
        struct lin_sum<DIM> sum(f, turn);
        for (int t0 = 0; t0 < f.tokens; t0 += LIN_TOKENS) {
            __syncthreads();
            lin_take<true>(f.right, f.dim, (const T *)a.q, a.ldqk, 0, f, t0);
            lin_take<false>(f.left, f.dim + 1, (const T *)a.dout, a.ldo, 0, f, t0);
            __syncthreads();
            for (int t = warp; t < f.some(t0); t += LIN_WARPS)
                lin_query_back(f, (T *)a.dq + f.row(t0 + t, a.ldd), t, lane);
            __syncthreads();
            sum.add(f, f.some(t0));
        }
        sum.store(f.own(a.vk)); /* shared memory still holds the sums that they replace */
    }
    lin_load(f, f.own(a.vk));
    for (int t0 = 0; t0 < f.tokens; t0 += LIN_TOKENS) {
        __syncthreads();
        lin_take<true>(f.right, f.dim, (const T *)a.k, a.ldqk, 0, f, t0);
        lin_take<false>(f.left, f.dim + 1, (const T *)a.v, a.ldv, 0, f, t0);
        __syncthreads();
        for (int t = warp; t < f.some(t0); t += LIN_WARPS)
            lin_key_back(f, (T *)a.dk + f.row(t0 + t, a.ldd), (T *)a.dv + f.row(t0 + t, a.ldd), t,
                         lane);
    }
}

#include "kernels/linattn_mma.cu"

static size_t lin_bytes(int dim)
{
    return sizeof(float) * ((size_t)(dim + 1) * (size_t)(dim + 1) +
                            (size_t)LIN_TOKENS * (size_t)(2 * dim + 1));
}

static void cuda_lin_attn(void *out, int ldo, struct kern_lin_attn keep, void *q, void *k, int ldqk,
                          const void *v, int ldv, struct kern_heads s)
{
    struct lin_args a = {};
    a.out = out, a.vk = keep.vk, a.q = q, a.k = k, a.v = v;
    a.ldo = ldo, a.ldqk = ldqk, a.ldv = ldv, a.s = s;
    if (mma_fits(&a, {(size_t)ldo, (size_t)ldqk, (size_t)ldv})) {
        mma_launch("lin_attn", lin_mma_kernel, &a);
        return;
    }
    for_kind(false, [&](auto kind, auto) {
        typedef decltype(kind) T;
        launch("lin_attn", s.dim == 32 ? lin_kernel<T, 32> : lin_kernel<T, 0>,
               dim3((unsigned)(s.batch * s.heads)), dim3(BLOCK), lin_bytes(s.dim), a);
    });
}

static void cuda_lin_attn_back(void *dq, void *dk, void *dv, int ldd, void *dout, int ldo,
                               const void *, struct kern_lin_attn keep, const void *q,
                               const void *k, int ldqk, const void *v, int ldv,
                               struct kern_heads s)
{
    struct lin_args a = {};
    a.dq = dq, a.dk = dk, a.dv = dv, a.vk = keep.vk, a.q = q, a.k = k, a.v = v, a.dout = dout;
    a.ldo = ldo, a.ldqk = ldqk, a.ldv = ldv, a.ldd = ldd, a.s = s;
    if (mma_fits(&a, {(size_t)ldo, (size_t)ldqk, (size_t)ldv, (size_t)ldd})) {
        mma_launch("lin_attn_back", lin_mma_back_kernel, &a);
        return;
    }
    for_kind(false, [&](auto kind, auto) {
        typedef decltype(kind) T;
        launch("lin_attn_back", s.dim == 32 ? lin_back_kernel<T, 32> : lin_back_kernel<T, 0>,
               dim3((unsigned)(s.batch * s.heads)), dim3(BLOCK), lin_bytes(s.dim), a);
    });
}

static void fill_linattn(struct kern_ops *ops)
{
    ops->lin_attn_dim = LIN_DIM;
    while (lin_bytes(ops->lin_attn_dim) > device.shared_most)
        ops->lin_attn_dim--;
    ops->lin_attn = cuda_lin_attn;
    ops->lin_attn_back = cuda_lin_attn_back;
}
