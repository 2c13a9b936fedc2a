/* SPDX-License-Identifier: Apache-2.0 */
/* causal.cu - causal softmax attention of grouped heads, and the rotary positions and gate of its decoder
 *
 * This is fp32; causal_mma.cuh is for bf16. A warp owns some queries of a head, whose channels are spread over its
 * lanes, and processes the keys 32 at a time: a lane keeps the score of one key, and the running sums are rescaled when
 * a larger score appears. Warps share nothing.
 */
#include <float.h>

#include "kernels/flash.cuh"

/* More rows of keys at once would not fit into registers. */
#ifdef CUDA_ON_CPU
#define CAUSAL_TWO
#else
#define CAUSAL_TWO _Pragma("unroll (PER > 8 ? 1 : 2)")
#endif

enum { CAUSAL_WARPS = 4 };

/* Queries of a warp: channels and sums of this lane. */
template <int PER> struct causal_rows {
    enum { COUNT = PER > 8 ? 1 : PER > 4 ? 2 : 4 };
    float q[COUNT][PER], out[COUNT][PER], top[COUNT], sum[COUNT];
};

struct causal_args {
    float             *out;
    const float       *q, *k, *v, *mask;
    struct kern_causal s;
};

/* The channels of a row of `dim` that this lane has. */
template <int PER> __device__ static inline void causal_load(float to[PER], const float *row, int dim)
{
    const int lane = (int)threadIdx.x % WARP;
    for (int i = 0; i < PER; i++)
        to[i] = lane + i * WARP < dim ? row[lane + i * WARP] : 0.0f;
}

/* Queries `first` and following of one head of one sample. */
struct causal_at {
    const float *q, *k, *v, *mask;
    float       *out;
    size_t       ld, ldk;
    int          first, position; /* of the first query, among the queries and among the keys */
    __device__ causal_at(const struct causal_args &a, int each)
    {
        const int b = (int)blockIdx.x / a.s.heads, h = (int)blockIdx.x % a.s.heads;
        const int group = h / (a.s.heads / a.s.kv_heads);
        ld = (size_t)a.s.heads * a.s.dim;
        ldk = (size_t)a.s.kv_heads * a.s.dim;
        first = (int)(blockIdx.y * CAUSAL_WARPS + threadIdx.x / WARP) * each;
        position = a.s.keys - a.s.queries + first;
        const size_t key = (size_t)b * a.s.keys, query = (size_t)b * a.s.queries;
        q = a.q + query * ld + (size_t)h * a.s.dim;
        out = a.out + query * ld + (size_t)h * a.s.dim;
        k = a.k + key * ldk + (size_t)group * a.s.dim;
        v = a.v + key * ldk + (size_t)group * a.s.dim;
        mask = a.s.whole ? NULL : a.mask + key;
    }
};

__device__ static inline bool causal_sees(const struct kern_causal &s, const float *mask, int position, int key)
{
    return s.whole || (key <= position && (s.window == 0 || position - key < s.window) && mask[key] > 0);
}

/* Row `i` of the queries, or the last one. */
__device__ static inline size_t causal_row(const struct causal_at &at, const struct kern_causal &s, int i)
{
    return (size_t)(at.first + i < s.queries ? at.first + i : s.queries - 1) * at.ld;
}

/* score[i] of query i and key `key` + lane; n keys are there. */
template <int PER>
__device__ static inline void causal_scores(float (&score)[causal_rows<PER>::COUNT], const causal_rows<PER> &r,
                                            const struct causal_at &at, const struct kern_causal &s, int key, int n)
{
    const int lane = (int)threadIdx.x % WARP;
    CAUSAL_TWO for (int j = 0; j < n; j++) {
        float row[PER];
        causal_load<PER>(row, at.k + (size_t)(key + j) * at.ldk, s.dim);
        UNROLLED for (int i = 0; i < causal_rows<PER>::COUNT; i++) {
            float sum = 0;
            UNROLLED for (int c = 0; c < PER; c++)
                sum += r.q[i][c] * row[c];
            sum = warp_sum(sum);
            score[i] = lane == j ? sum : score[i];
        }
    }
}

/* The probability of this lane's key for a query, before division by `sum`; *shrink: the factor for earlier sums. */
__device__ static inline float causal_meet(float score, bool seen, float *top, float *sum, float *shrink)
{
    const float most = fmaxf(*top, warp_max(seen ? score : -FLT_MAX));
    const float p = seen ? expf(score - most) : 0.0f;
    *shrink = expf(*top - most);
    *sum = *sum * *shrink + warp_sum(p);
    *top = most;
    return p;
}

/* p[i] of query i and each of the next n keys, and what that means for the sums so far. */
template <int PER>
__device__ static inline void causal_weigh(float (*p)[WARP], causal_rows<PER> &r, const struct causal_at &at,
                                           const struct kern_causal &s, int key, int n)
{
    const int lane = (int)threadIdx.x % WARP;
    float score[causal_rows<PER>::COUNT] = {}, shrink;
    causal_scores<PER>(score, r, at, s, key, n);
    UNROLLED for (int i = 0; i < causal_rows<PER>::COUNT; i++) {
        const float x = score[i] * s.scale, capped = s.cap > 0 ? s.cap * tanhf(x / s.cap) : x;
        const bool seen = lane < n && causal_sees(s, at.mask, at.position + i, key + lane);
        p[i][lane] = causal_meet(capped, seen, &r.top[i], &r.sum[i], &shrink);
        UNROLLED for (int c = 0; c < PER; c++)
            r.out[i][c] *= shrink;
    }
}

/* out[i] += p[i] v of n keys */
template <int PER>
__device__ static inline void causal_add(causal_rows<PER> &r, const float (*p)[WARP], const float *v, size_t ld, int n,
                                         int dim)
{
    CAUSAL_TWO for (int j = 0; j < n; j++) {
        float row[PER];
        causal_load<PER>(row, v + (size_t)j * ld, dim);
        UNROLLED for (int i = 0; i < causal_rows<PER>::COUNT; i++)
            UNROLLED for (int c = 0; c < PER; c++)
                r.out[i][c] += p[i][j] * row[c];
    }
}

/* A query that sees nothing gets the mean of all values. */
template <int PER>
__device__ static inline void causal_mean(float (&out)[PER], const struct causal_at &at, const struct kern_causal &s)
{
    UNROLLED for (int c = 0; c < PER; c++)
        out[c] = 0;
    CAUSAL_TWO for (int j = 0; j < s.keys; j++) {
        float row[PER];
        causal_load<PER>(row, at.v + (size_t)j * at.ldk, s.dim);
        UNROLLED for (int c = 0; c < PER; c++)
            out[c] += row[c];
    }
}

template <int PER>
__device__ static inline void causal_write(causal_rows<PER> &r, const struct causal_at &at, const struct kern_causal &s)
{
    const int lane = (int)threadIdx.x % WARP;
    UNROLLED for (int i = 0; i < causal_rows<PER>::COUNT; i++) {
        if (at.first + i >= s.queries)
            continue;
        if (!(r.sum[i] > 0)) {
            causal_mean<PER>(r.out[i], at, s);
            r.sum[i] = (float)s.keys;
        }
        const float by = 1.0f / r.sum[i];
        UNROLLED for (int c = 0; c < PER; c++)
            if (lane + c * WARP < s.dim)
                at.out[causal_row(at, s, i) + lane + c * WARP] = r.out[i][c] * by;
    }
}

/* Wide heads: three blocks a multiprocessor, for their sums do not fit into 128 registers. */
template <int PER>
__global__ void __launch_bounds__(CAUSAL_WARPS * WARP, PER > 4 ? 3 : 4) causal_kernel(struct causal_args a)
{
    enum { COUNT = causal_rows<PER>::COUNT };
    __shared__ float probs[CAUSAL_WARPS][COUNT][WARP];
    const struct kern_causal &s = a.s;
    const struct causal_at at(a, COUNT);
    const int last = at.position + COUNT, end = s.whole || last > s.keys ? s.keys : last;
    const int begin = !s.whole && s.window && at.position >= s.window ? at.position - s.window + 1 : 0;
    float (*p)[WARP] = probs[threadIdx.x / WARP];
    causal_rows<PER> r;
    if (at.first >= s.queries)
        return;
    UNROLLED for (int i = 0; i < COUNT; i++) {
        causal_load<PER>(r.q[i], at.q + causal_row(at, s, i), s.dim);
        r.top[i] = -FLT_MAX;
        r.sum[i] = 0;
        UNROLLED for (int c = 0; c < PER; c++)
            r.out[i][c] = 0;
    }
    for (int key = begin; key < end; key += WARP) {
        const int n = end - key < WARP ? end - key : WARP;
        causal_weigh<PER>(p, r, at, s, key, n);
        __syncwarp(); /* all of p is written */
        causal_add<PER>(r, p, at.v + (size_t)key * at.ldk, at.ldk, n, s.dim);
        __syncwarp(); /* all of p is read */
    }
    causal_write<PER>(r, at, s);
}

#include "kernels/causal_mma.cuh"

static void cuda_attend_causal(float *out, const float *q, const float *k, const float *v, const float *mask,
                               const struct kern_causal *s)
{
    const struct causal_args a = {out, q, k, v, mask, *s};
    if (causal_on_tensor_cores(a))
        return;
    void (*const kernels[])(struct causal_args) = {causal_kernel<1>, causal_kernel<2>, causal_kernel<4>,
                                                   causal_kernel<8>, causal_kernel<16>};
    const int count[] = {causal_rows<1>::COUNT, causal_rows<2>::COUNT, causal_rows<4>::COUNT, causal_rows<8>::COUNT,
                         causal_rows<16>::COUNT};
    int i = 0;
    while (s->dim > WARP << i)
        i++;
    const dim3 grid((unsigned)(s->batch * s->heads), tiles((size_t)s->queries, (size_t)(CAUSAL_WARPS * count[i])));
    launch("attend_causal", kernels[i], grid, dim3(CAUSAL_WARPS * WARP), 0, a);
}

/* --- positions, and the gate ----------------------------------------------------------------- */

__global__ void turn_halves_kernel(float *x, const float *cosine, const float *sine, size_t n, int length, int from,
                                   int heads, int half)
{
    for EACH(i, n) {
        const size_t pair = i % half, head = i / half, row = head / heads;
        const size_t at = (from + row % length) * half + pair;
        float *to = x + head * 2 * half + pair;
        const float u = to[0], v = to[half];
        to[0] = u * cosine[at] - v * sine[at];
        to[half] = v * cosine[at] + u * sine[at];
    }
}

static void cuda_turn_halves(float *x, const float *cosine, const float *sine, int batch, int length, int from,
                             int heads, int dim)
{
    const size_t n = (size_t)batch * (size_t)length * (size_t)heads * (size_t)(dim / 2);
    launch("turn_halves", turn_halves_kernel, grid_for(n), dim3(BLOCK), 0, x, cosine, sine, n, length, from, heads,
           dim / 2);
}

__global__ void geglu_kernel(float *y, const float *a, const float *b, size_t n)
{
    for EACH(i, n)
        y[i] = a[i] * gelu_gate(a[i]) * b[i];
}

static void cuda_geglu(float *y, const float *a, const float *b, size_t n)
{
    launch("geglu", geglu_kernel, grid_for(n), dim3(BLOCK), 0, y, a, b, n);
}

static void fill_causal(struct kern_ops *ops)
{
    ops->attend_causal = cuda_attend_causal;
    ops->turn_halves = cuda_turn_halves;
    ops->geglu = cuda_geglu;
}
