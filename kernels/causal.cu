/* SPDX-License-Identifier: Apache-2.0 */
/* causal.cu - causal softmax attention of grouped heads in fp32, and the rotary positions and gate of its decoder
 *
 * A warp owns some queries of a head, whose channels lie across its lanes, and meets the keys 32 at a time: a lane
 * keeps the score of one key, and the running sums are rescaled when a larger score appears.  Warps share nothing.
 */
#include <float.h>

#include "kernels/device.cuh"

enum { CAUSAL_QUERIES = 4, CAUSAL_WARPS = 4, CAUSAL_DIM = 512 };

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

/* Queries first .. first + CAUSAL_QUERIES - 1 of one head of one sample. */
struct causal_at {
    const float *q, *k, *v, *mask;
    float       *out;
    size_t       ld, ldk;
    int          first, position; /* of the first query, among the queries and among the keys */
    __device__ causal_at(const struct causal_args &a)
    {
        const int b = (int)blockIdx.x / a.s.heads, h = (int)blockIdx.x % a.s.heads;
        const int group = h / (a.s.heads / a.s.kv_heads);
        ld = (size_t)a.s.heads * a.s.dim;
        ldk = (size_t)a.s.kv_heads * a.s.dim;
        first = (int)(blockIdx.y * CAUSAL_WARPS + threadIdx.x / WARP) * CAUSAL_QUERIES;
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
__device__ static inline void causal_scores(float score[CAUSAL_QUERIES], const float q[CAUSAL_QUERIES][PER],
                                            const struct causal_at &at, const struct kern_causal &s, int key, int n)
{
    const int lane = (int)threadIdx.x % WARP;
    for (int j = 0; j < n; j++) {
        float row[PER];
        causal_load<PER>(row, at.k + (size_t)(key + j) * at.ldk, s.dim);
        for (int i = 0; i < CAUSAL_QUERIES; i++) {
            float sum = 0;
            for (int c = 0; c < PER; c++)
                sum += q[i][c] * row[c];
            sum = warp_sum(sum);
            score[i] = lane == j ? sum : score[i];
        }
    }
}

/* The probability of this lane's key for a query, before division by `sum`; *shrink: what earlier sums are times. */
__device__ static inline float causal_meet(float score, bool seen, float *top, float *sum, float *shrink)
{
    const float most = fmaxf(*top, warp_max(seen ? score : -FLT_MAX));
    const float p = seen ? expf(score - most) : 0.0f;
    *shrink = expf(*top - most);
    *sum = *sum * *shrink + warp_sum(p);
    *top = most;
    return p;
}

/* A query that sees nothing: the mean of all values. */
template <int PER>
__device__ static inline void causal_mean(float out[PER], const struct causal_at &at, const struct kern_causal &s)
{
    for (int c = 0; c < PER; c++)
        out[c] = 0;
    for (int j = 0; j < s.keys; j++) {
        float row[PER];
        causal_load<PER>(row, at.v + (size_t)j * at.ldk, s.dim);
        for (int c = 0; c < PER; c++)
            out[c] += row[c];
    }
}

template <int PER> __global__ void causal_kernel(struct causal_args a)
{
    __shared__ float probs[CAUSAL_WARPS][CAUSAL_QUERIES][WARP];
    const struct kern_causal &s = a.s;
    const struct causal_at at(a);
    const int lane = (int)threadIdx.x % WARP, last = at.position + CAUSAL_QUERIES;
    float (*p)[WARP] = probs[threadIdx.x / WARP];
    float q[CAUSAL_QUERIES][PER], out[CAUSAL_QUERIES][PER], top[CAUSAL_QUERIES], sum[CAUSAL_QUERIES];
    if (at.first >= s.queries)
        return;
    for (int i = 0; i < CAUSAL_QUERIES; i++) {
        causal_load<PER>(q[i], at.q + causal_row(at, s, i), s.dim);
        top[i] = -FLT_MAX;
        sum[i] = 0;
        for (int c = 0; c < PER; c++)
            out[i][c] = 0;
    }
    const int end = s.whole || last > s.keys ? s.keys : last;
    const int begin = !s.whole && s.window && at.position >= s.window ? at.position - s.window + 1 : 0;
    for (int key = begin; key < end; key += WARP) {
        const int n = end - key < WARP ? end - key : WARP;
        float score[CAUSAL_QUERIES] = {0}, shrink;
        causal_scores<PER>(score, q, at, s, key, n);
        for (int i = 0; i < CAUSAL_QUERIES; i++) {
            const float x = score[i] * s.scale, capped = s.cap > 0 ? s.cap * tanhf(x / s.cap) : x;
            const bool seen = lane < n && causal_sees(s, at.mask, at.position + i, key + lane);
            p[i][lane] = causal_meet(capped, seen, &top[i], &sum[i], &shrink);
            for (int c = 0; c < PER; c++)
                out[i][c] *= shrink;
        }
        __syncwarp(); /* all of p is written */
        for (int j = 0; j < n; j++) {
            float row[PER];
            causal_load<PER>(row, at.v + (size_t)(key + j) * at.ldk, s.dim);
            for (int i = 0; i < CAUSAL_QUERIES; i++)
                for (int c = 0; c < PER; c++)
                    out[i][c] += p[i][j] * row[c];
        }
        __syncwarp(); /* all of p is read */
    }
    for (int i = 0; i < CAUSAL_QUERIES && at.first + i < s.queries; i++) {
        if (!(sum[i] > 0)) {
            causal_mean<PER>(out[i], at, s);
            sum[i] = (float)s.keys;
        }
        for (int c = 0; c < PER; c++)
            if (lane + c * WARP < s.dim)
                at.out[causal_row(at, s, i) + lane + c * WARP] = out[i][c] / sum[i];
    }
}

static void cuda_attend_causal(float *out, const float *q, const float *k, const float *v, const float *mask,
                               const struct kern_causal *s)
{
    const struct causal_args a = {out, q, k, v, mask, *s};
    const dim3 grid((unsigned)(s->batch * s->heads), tiles((size_t)s->queries, CAUSAL_WARPS * CAUSAL_QUERIES));
    void (*const kernels[])(struct causal_args) = {causal_kernel<1>, causal_kernel<2>, causal_kernel<4>,
                                                   causal_kernel<8>, causal_kernel<16>};
    int i = 0;
    while (s->dim > WARP << i)
        i++;
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
