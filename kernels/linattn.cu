/* SPDX-License-Identifier: Apache-2.0 */
/* linattn.cu - ReLU linear attention; the formulas stand in linattn_ref.c
 *
 * Two kernels: the sums over tokens of a head (vk and its row of sums, a block
 * per head), and what each token does with such sums (a warp per token).
 * Everything fp32, as the authors have it.
 */
#include "kernels/device.cuh"

/* LIN_DIM: what fits into the shared memory that a block has without asking, 48 KB. */
enum { LIN_TOKENS = 32, LIN_WARPS = BLOCK / WARP, LIN_DIM = 109 };

struct lin_head {
    struct kern_heads s;
    __device__ size_t row(int b, int h, int t, int ld) const
    {
        return ((size_t)b * s.tokens + t) * ld + (size_t)h * s.dim;
    }
    __device__ size_t sums(int b, int h) const
    {
        return ((size_t)b * s.heads + h) * (size_t)(s.dim + 1) * s.dim;
    }
    __device__ size_t den(int b, int h, int t) const
    {
        return ((size_t)b * s.tokens + t) * s.heads + h;
    }
};

/* vk[d][j] = sum over tokens of v[t][d] k[t][j], and vk[dim][j] = sum of weight[t] k[t][j]
 * (weight NULL: 1). A thread has one (d, j) of gridDim.y parts of them; tokens pass by in
 * shared memory, LIN_TOKENS at a time. */
__global__ void lin_sums_kernel(float *vk, const float *k, int ldk, const float *v, int ldv,
                                const float *weight, struct lin_head f)
{
    const int dim = f.s.dim, b = (int)blockIdx.x / f.s.heads, h = (int)blockIdx.x % f.s.heads;
    const int at = (int)(blockIdx.y * BLOCK + threadIdx.x), count = (dim + 1) * dim;
    const int d = at / dim, j = at % dim;
    DYNAMIC_SHARED(float, tile); /* k, then v with its weight: [LIN_TOKENS][dim], [..][dim + 1] */
    float *tile_v = tile + LIN_TOKENS * dim;
    float sum = 0;
    for (int t0 = 0; t0 < f.s.tokens; t0 += LIN_TOKENS) {
        const int n = f.s.tokens - t0 < LIN_TOKENS ? f.s.tokens - t0 : LIN_TOKENS;
        __syncthreads();
        for (int i = (int)threadIdx.x; i < n * dim; i += BLOCK)
            tile[i] = k[f.row(b, h, t0 + i / dim, ldk) + i % dim];
        for (int i = (int)threadIdx.x; i < n * (dim + 1); i += BLOCK) {
            const int t = t0 + i / (dim + 1), e = i % (dim + 1);
            tile_v[i] = e < dim ? v[f.row(b, h, t, ldv) + e]
                                : weight ? weight[f.den(b, h, t)] : 1.0f;
        }
        __syncthreads();
        if (at < count)
            for (int t = 0; t < n; t++)
                sum += tile_v[t * (dim + 1) + d] * tile[t * dim + j];
    }
    if (at < count)
        vk[f.sums(b, h) + at] = sum;
}

/* The sums of a head in shared memory, rows dim + 1 apart so that a warp can walk columns. */
__device__ static inline void lin_load(float *to, const float *vk, int dim)
{
    for (int i = (int)threadIdx.x; i < (dim + 1) * dim; i += BLOCK)
        to[i / dim * (dim + 1) + i % dim] = vk[i];
    __syncthreads();
}

__global__ void lin_out_kernel(float *out, int ldo, float *den, const float *vk, const float *q,
                               int ldq, struct lin_head f)
{
    const int dim = f.s.dim, b = (int)blockIdx.x / f.s.heads, h = (int)blockIdx.x % f.s.heads;
    const int t = (int)(blockIdx.y * LIN_WARPS + threadIdx.x / WARP), lane = threadIdx.x % WARP;
    DYNAMIC_SHARED(float, sums);
    lin_load(sums, vk + f.sums(b, h), dim);
    if (t >= f.s.tokens)
        return;
    const float *x = q + f.row(b, h, t, ldq), *ksum = sums + dim * (dim + 1);
    float d = 0;
    for (int j = lane; j < dim; j += WARP)
        d += x[j] * ksum[j];
    d = warp_sum(d) + 1e-8f;
    if (lane == 0)
        den[f.den(b, h, t)] = d;
    for (int e = lane; e < dim; e += WARP) {
        float num = 0;
        for (int j = 0; j < dim; j++)
            num += x[j] * sums[e * (dim + 1) + j];
        out[f.row(b, h, t, ldo) + e] = num * (1.0f / d);
    }
}

/* dout becomes dnum = dout / den, den becomes dden = -dnum . out;
 * dq = dnum vk + dden ksum where relu let q through. */
__global__ void lin_query_back_kernel(float *dq, int ldd, float *dout, const float *out, int ldo,
                                      float *den, const float *vk, const float *q, int ldq,
                                      struct lin_head f)
{
    const int dim = f.s.dim, b = (int)blockIdx.x / f.s.heads, h = (int)blockIdx.x % f.s.heads;
    const int t = (int)(blockIdx.y * LIN_WARPS + threadIdx.x / WARP), lane = threadIdx.x % WARP;
    DYNAMIC_SHARED(float, sums);
    lin_load(sums, vk + f.sums(b, h), dim);
    if (t >= f.s.tokens)
        return;
    float *dnum = dout + f.row(b, h, t, ldo);
    const float *o = out + f.row(b, h, t, ldo), *ksum = sums + dim * (dim + 1);
    const float share = 1.0f / den[f.den(b, h, t)];
    float w = 0;
    for (int e = lane; e < dim; e += WARP) {
        const float d = dnum[e] * share;
        dnum[e] = d;
        w -= d * o[e];
    }
    w = warp_sum(w); /* after it, every lane sees all of dnum: */
    __syncwarp();
    if (lane == 0)
        den[f.den(b, h, t)] = w;
    for (int j = lane; j < dim; j += WARP) {
        float sum = w * ksum[j];
        for (int e = 0; e < dim; e++)
            sum += dnum[e] * sums[e * (dim + 1) + j];
        dq[f.row(b, h, t, ldd) + j] = q[f.row(b, h, t, ldq) + j] > 0.0f ? sum : 0.0f;
    }
}

/* With dvk and dksum in place of the sums: dk = v dvk + dksum where relu let k through,
 * dv = k dvk^T. */
__global__ void lin_key_back_kernel(float *dk, float *dv, int ldd, const float *dvk, const float *k,
                                    int ldk, const float *v, int ldv, struct lin_head f)
{
    const int dim = f.s.dim, b = (int)blockIdx.x / f.s.heads, h = (int)blockIdx.x % f.s.heads;
    const int t = (int)(blockIdx.y * LIN_WARPS + threadIdx.x / WARP), lane = threadIdx.x % WARP;
    DYNAMIC_SHARED(float, sums);
    lin_load(sums, dvk + f.sums(b, h), dim);
    if (t >= f.s.tokens)
        return;
    const float *x = k + f.row(b, h, t, ldk), *y = v + f.row(b, h, t, ldv);
    for (int j = lane; j < dim; j += WARP) {
        float from_v = sums[dim * (dim + 1) + j], from_k = 0;
        for (int e = 0; e < dim; e++) {
            from_v += y[e] * sums[e * (dim + 1) + j];
            from_k += x[e] * sums[j * (dim + 1) + e];
        }
        dk[f.row(b, h, t, ldd) + j] = x[j] > 0.0f ? from_v : 0.0f;
        dv[f.row(b, h, t, ldd) + j] = from_k;
    }
}

static size_t lin_tile_bytes(int dim)
{
    return sizeof(float) * LIN_TOKENS * (size_t)(2 * dim + 1);
}

static size_t lin_sums_bytes(int dim)
{
    return sizeof(float) * (size_t)(dim + 1) * (size_t)(dim + 1);
}

static void lin_sums(float *vk, const float *k, int ldk, const float *v, int ldv,
                     const float *weight, struct lin_head f)
{
    const size_t count = (size_t)(f.s.dim + 1) * (size_t)f.s.dim;
    const dim3 grid((unsigned)(f.s.batch * f.s.heads), tiles(count, BLOCK));
    launch("lin_attn", lin_sums_kernel, grid, dim3(BLOCK), lin_tile_bytes(f.s.dim), vk,
           k, ldk, v, ldv, weight, f);
}

static dim3 lin_grid(struct kern_heads s)
{
    return dim3((unsigned)(s.batch * s.heads), tiles((size_t)s.tokens, LIN_WARPS));
}

static void cuda_lin_attn(float *out, int ldo, struct kern_lin_attn keep, const float *q,
                          const float *k, int ldqk, const float *v, int ldv, struct kern_heads s)
{
    const struct lin_head f = {s};
    lin_sums(keep.vk, k, ldqk, v, ldv, NULL, f);
    launch("lin_attn", lin_out_kernel, lin_grid(s), dim3(BLOCK), lin_sums_bytes(s.dim), out, ldo,
           keep.den, keep.vk, q, ldqk, f);
}

static void cuda_lin_attn_back(float *dq, float *dk, float *dv, int ldd, float *dout, int ldo,
                               const float *out, struct kern_lin_attn keep, const float *q,
                               const float *k, int ldqk, const float *v, int ldv,
                               struct kern_heads s)
{
    const struct lin_head f = {s};
    launch("lin_attn_back", lin_query_back_kernel, lin_grid(s), dim3(BLOCK), lin_sums_bytes(s.dim),
           dq, ldd, dout, out, ldo, keep.den, keep.vk, q, ldqk, f);
    lin_sums(keep.vk, q, ldqk, dout, ldo, keep.den, f);
    launch("lin_attn_back", lin_key_back_kernel, lin_grid(s), dim3(BLOCK), lin_sums_bytes(s.dim),
           dk, dv, ldd, keep.vk, k, ldqk, v, ldv, f);
}

static void fill_linattn(struct kern_ops *ops)
{
    ops->lin_attn_dim = LIN_DIM;
    ops->lin_attn = cuda_lin_attn;
    ops->lin_attn_back = cuda_lin_attn_back;
}
