/* SPDX-License-Identifier: Apache-2.0 */
/* crossattn_ref.c - softmax attention of image tokens to caption tokens
 *
 * The mask is added, (mask - 1) * 10000, as in the authors' code: exp() of a masked
 * score is exactly 0 if at least one token of the sample is valid; a sample
 * without valid tokens attends to all its padding.
 */
#include <float.h>
#include <math.h>

#include "kernels/gemm_product.h"
#include "kernels/isa_table.h"
#include "kernels/kernels.h"
#include "kernels/simd.h"
#include "kernels/thread_pool.h"
#include "kernels/tile.h"

#define MASKED 10000.0f

/* What a masked score is lowered by. If all are masked, none is: the mask would lower all scores equally. */
static float masked_by(const float *mask, int n)
{
    for (int i = 0; i < n; i++)
        if (mask[i] != 0)
            return MASKED;
    return 0;
}

/* p = softmax(p * scale + (mask - 1) * masked), in place. */
static void softmax_row(float *p, const float *mask, float masked, float scale, int n)
{
    const simd_reg lowest = (simd_reg){0} - FLT_MAX;
    simd_reg tops = lowest, sum[SIMD_REGS] = {{0}};
    for (int at = 0; at < n; at += SIMD_WIDTH) {
        const simd_reg s = simd_reg_load(p, at, n) * scale + (simd_reg_load(mask, at, n) - 1.0f) * masked;
        simd_reg_store(p, at, n, s);
        tops = simd_reg_max(tops, simd_reg_first_or(n - at, s, lowest));
    }
    const float top = simd_reg_top(tops);
    for (int c = 0; c < n; c += LANES)
        SIMD_EACH(i) {
            const simd_reg e = simd_reg_exp(simd_reg_load(p, SIMD_AT(c, i), n) - top);
            simd_reg_store(p, SIMD_AT(c, i), n, e);
            sum[i] += simd_reg_first(n - SIMD_AT(c, i), e);
        }
    const float share = 1.0f / simd_reg_sum(sum);
    for (int at = 0; at < n; at += SIMD_WIDTH)
        simd_reg_store(p, at, n, simd_reg_load(p, at, n) * share);
}

/* ds = p (dp - sum(dp p)) * scale, in place of dp. */
static void softmax_back_row(float *dp, const float *p, float scale, int n)
{
    simd_reg sum[SIMD_REGS] = {{0}};
    for (int c = 0; c < n; c += LANES)
        SIMD_EACH(i)
            sum[i] += simd_reg_load(dp, SIMD_AT(c, i), n) * simd_reg_load(p, SIMD_AT(c, i), n);
    const float total = simd_reg_sum(sum);
    for (int at = 0; at < n; at += SIMD_WIDTH)
        simd_reg_store(dp, at, n, simd_reg_load(p, at, n) * (simd_reg_load(dp, at, n) - total) * scale);
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

/* c[m,n] = a b, each of which may be stored transposed */
static void gemm(bool a_across, bool b_across, int m, int n, int k, const float *a, int lda, const float *b, int ldb,
                 float *c, int ldc)
{
    gemm_multiply(&(struct gemm_product){
        .y = c, .a = a, .b = b, .ldy = (size_t)ldc, .lda = (size_t)lda, .ldb = (size_t)ldb, .rows = m, .cols = n,
        .depth = k, .a_across = a_across, .b_across = b_across,
    });
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
        const float *mask = a->t.mask + at.row, masked = masked_by(mask, L);
        float *p = a->prob + at.prob;
        gemm(false, true, N, L, D, a->q + at.q, at.ld, a->k + at.k, a->ldk, p, L);
        for (int t = 0; t < N; t++)
            softmax_row(p + (size_t)t * (size_t)L, mask, masked, scale, L);
        gemm(false, false, N, D, L, p, L, a->v + at.v, a->ldv, a->out + at.q, at.ld);
    }
}

static void cross_attn(void *out, float *prob, const void *q, const void *k, int ldk,
                       const void *v, int ldv, struct kern_text t, struct kern_heads s)
{
    const struct cross_args a = {
        .out = out, .prob = prob, .q = q, .k = k, .v = v, .ldk = ldk, .ldv = ldv, .t = t, .s = s,
    };
    thread_pool_range((size_t)(s.batch * s.heads), 1, (size_t)(s.tokens * t.most * 2), cross_heads, &a);
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
        gemm(false, true, N, L, D, dout, at.ld, a->v + at.v, a->ldv, ds, L);
        gemm(true, false, L, D, N, p, L, dout, at.ld, a->dv + kv, a->lddkv);
        for (int t = 0; t < N; t++)
            softmax_back_row(ds + (size_t)t * (size_t)L, p + (size_t)t * (size_t)L, scale, L);
        gemm(false, false, N, D, L, ds, L, a->k + at.k, a->ldk, a->dq + at.q, at.ld);
        gemm(true, false, L, D, N, ds, L, a->q + at.q, at.ld, a->dk + kv, a->lddkv);
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
    thread_pool_range((size_t)(s.batch * s.heads), 1, (size_t)(s.tokens * t.most * 4), cross_heads_back, &a);
}

void KERN_FILL(crossattn)(struct kern_ops *ops)
{
    ops->cross_attn_dim = 1 << 16;
    ops->cross_attn = cross_attn;
    ops->cross_attn_back = cross_attn_back;
}
