/* SPDX-License-Identifier: Apache-2.0 */
/* crossattn_ref.c - softmax attention of image tokens to caption tokens
 *
 * The mask is added, (mask - 1) * 10000, as in the authors' code: exp() of a masked
 * score is exactly 0 if at least one token of the sample is valid; a sample
 * without valid tokens attends to its padding.
 */
#include <cblas.h>
#include <float.h>
#include <math.h>

#include "kernels/isa_table.h"
#include "kernels/kernels.h"
#include "kernels/simd.h"
#include "kernels/thread_pool.h"
#include "kernels/tile.h"

#define MASKED 10000.0f

/* p = softmax(p * scale + mask), in place. */
static void softmax_row(float *p, const float *mask, float scale, int n)
{
    const v16 lowest = simd_all(-FLT_MAX);
    v16 tops = lowest, sum = {0};
    for (int i = 0; i < n; i += LANES) {
        v16 s = simd_load_at(p, i, n) * scale + (simd_load_at(mask, i, n) - 1.0f) * MASKED;
        simd_store_at(p, i, n, s);
        tops = simd_max(tops, simd_first(n - i, s, lowest));
    }
    const float top = simd_top(tops);
    for (int i = 0; i < n; i += LANES) {
        v16 e = simd_exp(simd_load_at(p, i, n) - top);
        simd_store_at(p, i, n, e);
        sum += simd_first(n - i, e, simd_all(0.0f));
    }
    const float share = 1.0f / simd_sum(sum);
    for (int i = 0; i < n; i += LANES)
        simd_store_at(p, i, n, simd_load_at(p, i, n) * share);
}

/* ds = p (dp - sum(dp p)) * scale, in place of dp. */
static void softmax_back_row(float *dp, const float *p, float scale, int n)
{
    v16 sum = {0};
    for (int i = 0; i < n; i += LANES)
        sum += simd_load_at(dp, i, n) * simd_load_at(p, i, n);
    float total = simd_sum(sum);
    for (int i = 0; i < n; i += LANES)
        simd_store_at(dp, i, n, simd_load_at(p, i, n) * (simd_load_at(dp, i, n) - total) * scale);
}

struct head {
    size_t q, k, v, prob, row; /* offsets of sample and head; row: the same among captions */
    int    ld, text;           /* tokens of its caption */
};

SIMD_FN struct head head_at(struct kern_heads s, int b, int h, int ldk, int ldv, struct kern_text t)
{
    const size_t ld = (size_t)s.heads * (size_t)s.dim, col = (size_t)h * (size_t)s.dim;
    const size_t row = (size_t)text_first(t.first, t.most, b);
    const size_t text = (size_t)text_first(t.first, t.most, b + 1) - row;
    return (struct head){
        .q = (size_t)b * (size_t)s.tokens * ld + col,
        .k = row * (size_t)ldk + col,
        .v = row * (size_t)ldv + col,
        .prob = (row * (size_t)s.heads + (size_t)h * text) * (size_t)s.tokens,
        .row = row,
        .ld = (int)ld,
        .text = (int)text,
    };
}

struct cross_args {
    float            *out, *prob, *dq, *dk, *dv, *work;
    const float      *q, *k, *v, *dout, *prob_in;
    int               ldk, ldv, lddkv;
    struct kern_text  t;
    struct kern_heads s;
};

static void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, const float *a,
                 int lda, const float *b, int ldb, float *c, int ldc)
{
    cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, 1.0f, a, lda, b, ldb, 0.0f, c, ldc);
}

/* Item i is a sample and a head. */
static void cross_heads(const void *arg, size_t from, size_t to)
{
    const struct cross_args *a = arg;
    const int N = a->s.tokens, D = a->s.dim;
    const float scale = 1.0f / sqrtf((float)D);
    for (size_t i = from; i < to; i++) {
        const int b = (int)i / a->s.heads, h = (int)i % a->s.heads;
        const struct head at = head_at(a->s, b, h, a->ldk, a->ldv, a->t);
        const int L = at.text;
        float *p = a->prob + at.prob;
        gemm(CblasNoTrans, CblasTrans, N, L, D, a->q + at.q, at.ld, a->k + at.k, a->ldk, p, L);
        for (int t = 0; t < N; t++)
            softmax_row(p + (size_t)t * (size_t)L, a->t.mask + at.row, scale, L);
        gemm(CblasNoTrans, CblasNoTrans, N, D, L, p, L, a->v + at.v, a->ldv, a->out + at.q, at.ld);
    }
}

static void cross_attn(void *out, float *prob, const void *q, const void *k, int ldk,
                       const void *v, int ldv, struct kern_text t, struct kern_heads s)
{
    const struct cross_args a = {
        .out = out, .prob = prob, .q = q, .k = k, .v = v, .ldk = ldk, .ldv = ldv, .t = t, .s = s,
    };
    thread_pool_range((size_t)(s.batch * s.heads), 1, (size_t)(s.tokens * t.most * 2), cross_heads,
                      &a);
}

static void cross_heads_back(const void *arg, size_t from, size_t to)
{
    const struct cross_args *a = arg;
    const int N = a->s.tokens, D = a->s.dim;
    const float scale = 1.0f / sqrtf((float)D);
    for (size_t i = from; i < to; i++) {
        const int b = (int)i / a->s.heads, h = (int)i % a->s.heads;
        const struct head at = head_at(a->s, b, h, a->ldk, a->ldv, a->t);
        const int L = at.text;
        const size_t kv = head_at(a->s, b, h, a->lddkv, a->lddkv, a->t).k;
        const float *p = a->prob_in + at.prob, *dout = a->dout + at.q;
        float *ds = a->work + at.prob;
        gemm(CblasNoTrans, CblasTrans, N, L, D, dout, at.ld, a->v + at.v, a->ldv, ds, L);
        gemm(CblasTrans, CblasNoTrans, L, D, N, p, L, dout, at.ld, a->dv + kv, a->lddkv);
        for (int t = 0; t < N; t++)
            softmax_back_row(ds + (size_t)t * (size_t)L, p + (size_t)t * (size_t)L, scale, L);
        gemm(CblasNoTrans, CblasNoTrans, N, D, L, ds, L, a->k + at.k, a->ldk, a->dq + at.q, at.ld);
        gemm(CblasTrans, CblasNoTrans, L, D, N, ds, L, a->q + at.q, at.ld, a->dk + kv, a->lddkv);
    }
}

/* The probabilities are kept, so the mask is not needed. */
static void cross_attn_back(void *dq, void *dk, void *dv, int lddkv, float *work, const void *dout,
                            const float *prob, const void *q, const void *k, int ldk,
                            const void *v, int ldv, struct kern_text t, struct kern_heads s)
{
    const struct cross_args a = {
        .dq = dq, .dk = dk, .dv = dv, .work = work, .q = q, .k = k, .v = v, .dout = dout,
        .prob_in = prob, .ldk = ldk, .ldv = ldv, .lddkv = lddkv, .t = t, .s = s,
    };
    thread_pool_range((size_t)(s.batch * s.heads), 1, (size_t)(s.tokens * t.most * 4),
                      cross_heads_back,
                      &a);
}

void KERN_FILL(crossattn)(struct kern_ops *ops)
{
    ops->cross_attn_dim = 1 << 16;
    ops->cross_attn = cross_attn;
    ops->cross_attn_back = cross_attn_back;
}
